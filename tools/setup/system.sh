# Installs the system packages that are missing: say which and why, then apt as root or with sudo.
# shellcheck shell=bash

# Prints "package reason" lines for the given purpose (demo, control or test).
system_packages() {
    if [ -z "${MGI_PYTHON:-}" ]; then
        echo "python3 runs the package and the tools"
        echo "python3-venv makes the project's own Python environment in .venv"
        echo "python3-dev has the headers that the Python module is compiled against"
    fi
    echo "ca-certificates lets pip trust the package index"
    echo "libspdlog-dev is the logging library (headers only)"
    echo "libpugixml-dev reads topology files (XML)"
    echo "nlohmann-json3-dev reads corrections of graphs, packs messages to agents (headers only)"
    echo "libhwloc15 tells mgi topo of CPUs and PCI devices"
    case "$1" in
        control | test)
            echo "libcurl4-openssl-dev speaks with etcd"
            echo "libprotobuf-dev packs messages"
            echo "protobuf-compiler generates the code that does"
            echo "libfmt-dev makes the control plane's texts"
            echo "libssl-dev encrypts connections and the status page"
            echo "libcli11-dev reads command lines (headers only)"
            echo "prometheus-cpp-dev writes metrics as Prometheus reads them"
            ;;
    esac
    if [ "$1" = test ]; then
        echo "libgtest-dev is the C++ test framework"
        echo "relacy-dev checks the protocols under relaxed memory (headers only)"
        echo "iproute2 makes the namespaces and NICs of mgi testbed"
        echo "gdb prints every thread's stack when a test hangs"
        echo "spin checks the protocols' models"
        echo "etcd-server elects a controller in the tests"
        echo "openssl makes the tests' certificates"
        echo "gcc compiles what spin makes of a model"
        echo "libopenmpi-dev is a peer that exchanges are measured beside"
        echo "openmpi-bin starts its processes"
        echo "libucx-dev is another"
        echo "pkg-config finds it"
        echo "libgloo-dev is another"
        echo "clang finds input that breaks something, with libFuzzer"
        fuzzer_package
    fi
}

# The distribution and its version, "debian:12".
distribution() {
    local ID="" VERSION_ID=""
    # shellcheck disable=SC1091
    [ -r /etc/os-release ] && . /etc/os-release
    printf '%s:%s\n' "$ID" "$VERSION_ID"
}

compiler_package() {
    case "$(distribution)" in
        ubuntu:22.*) echo g++-12 ;;
        *) echo g++ ;;
    esac
}

# Where libFuzzer and the sanitizers of clang are a package of their own.
fuzzer_package() {
    case "$(distribution)" in
        debian:12) echo "libclang-rt-14-dev is libFuzzer itself" ;;
        ubuntu:24.*) echo "libclang-rt-18-dev is libFuzzer itself" ;;
    esac
}

install_system_packages() {
    local purpose=$1 package reason missing=() reasons=()
    if [ -n "${MGI_SETUP_SKIP_APT:-}" ]; then
        return
    fi
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        fail "this is no Debian or Ubuntu (no apt-get). Install g++ 12 or newer, Python 3.10 or newer" \
            "with its headers, spdlog, pugixml, nlohmann-json, hwloc, GoogleTest, Relacy and gdb, then run again with MGI_SETUP_SKIP_APT=1."
    fi

    local installed
    installed=" $(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 2>/dev/null |
        sed -n 's/^.i. *//p' | tr '\n' ' ') "
    while read -r package reason; do
        case "$installed" in
            *" $package "*) ;;
            *) missing+=("$package") reasons+=("$reason") ;;
        esac
    done < <(system_packages "$purpose")
    if [ -z "$(mgi_compiler)" ]; then
        missing+=("$(compiler_package)") reasons+=("is the C++20 compiler (12 or newer)")
    fi
    [ "${#missing[@]}" -gt 0 ] || return 0

    say "system packages to install with apt-get:"
    local i
    for i in "${!missing[@]}"; do
        printf '    %-16s %s\n' "${missing[$i]}" "${reasons[$i]}"
    done

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            as_root=(sudo)
        else
            fail "that needs root, and there is no sudo that would do it. As root, run" \
                $'this once, then start again:\n\n   ' \
                "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"$'\n'
        fi
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
        -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
    logged build/setup-apt.log "${apt[@]}" update
    logged build/setup-apt.log "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
    say "system packages installed"
}
