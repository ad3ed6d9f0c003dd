# Builds the mgi package for this machine and installs it into .venv, when its sources changed.
# shellcheck shell=bash

# Everything the built package depends on: sources, pinned tools, compiler, and (the code uses every
# instruction of this processor) the processor. With protobuf and libcurl installed it has the control plane in it, with a
# GPU's driver and nvcc (or MGI_CUDA=1) what is for GPUs.
package_key() {
    local cxx=$1
    content_of CMakeLists.txt cmake include src bench/perf python pyproject.toml requirements.txt
    printf '%s %s\n' "$cxx" "$("$cxx" -dumpfullversion)"
    command -v protoc curl-config || true
    if for_gpus; then
        printf '%s %s\n' "$(mgi_nvcc)" "$(cat /proc/driver/nvidia/version 2>/dev/null || true)"
        content_of bench/gpu
    fi
    grep -m 2 -E '^(model name|flags)' /proc/cpuinfo | sha256sum
}

# Whether the package gets what is for GPUs: as AUTO in cmake/MgiFindCuda.cmake decides.
for_gpus() {
    case "${MGI_CUDA:-}" in
        0) return 1 ;;
        1) ;;
        *) [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ] || return 1 ;;
    esac
    [ -n "$(mgi_nvcc)" ]
}

# install_package <purpose>: for the tests it is built as the preset `release` builds, and in its
# folder, so that no source is compiled twice.
install_package() {
    local cxx key log=build/setup-package.log start=$SECONDS as_release=()
    if [ "$1" = test ]; then
        as_release=(--config-settings=build-dir=build/release
            --config-settings=cmake.build-type=RelWithDebInfo
            --config-settings=cmake.define.MGI_WARNINGS_AS_ERRORS=ON
            --config-settings="cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -g1 -DNDEBUG")
    fi
    cxx=$(mgi_compiler)
    [ -n "$cxx" ] || fail "no g++ of version 12 or newer; set CXX to one"
    key=$(package_key "$cxx")
    if [ -x .venv/bin/mgi ] && [ "$(cat .venv/.mgi/package 2>/dev/null)" = "$key" ]; then
        return
    fi
    say "building the mgi package (log: $log)"
    rm -f .venv/.mgi/package
    # Ninja's own progress lines are shown; the rest goes to the log.
    local nvcc cuda=()
    if for_gpus; then
        nvcc=$(mgi_nvcc)
        # The PyPI packages keep the libraries where nvcc does not look.
        cuda=(CUDACXX="$nvcc" CUDAHOSTCXX="$cxx"
            LIBRARY_PATH="$(dirname "$(dirname "$nvcc")")/lib${LIBRARY_PATH:+:$LIBRARY_PATH}")
    fi
    if ! env PATH="$PWD/.venv/bin:$PATH" CXX="$cxx" "${cuda[@]}" .venv/bin/python -m pip install -v \
        --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
        "${as_release[@]}" . 2>&1 |
        tee "$log" | sed -u -n -E 's/^ *(\[[0-9]+\/[0-9]+\] .*)/    \1/p'; then
        printf 'setup: the build failed; its log is %s, the errors in it:\n' "$log" >&2
        grep -n -E -A 6 'error:|Error:|FAILED:' "$log" | tail -n 40 >&2
        exit 1
    fi
    printf '%s\n' "$key" >.venv/.mgi/package
    say "the mgi package is built and installed ($((SECONDS - start)) s)"
}
