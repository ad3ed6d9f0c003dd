# Shared by the set-up scripts, demo.sh and test.sh. To be sourced from the repository's root.
# shellcheck shell=bash

say() { printf 'setup: %s\n' "$*"; }

fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 1
}

# Runs a command with its output in a log; shows the end of the log when it fails.
logged() {
    local log=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        printf 'setup: this failed: %s\nsetup: the end of %s:\n' "$*" "$log" >&2
        tail -n 25 "$log" >&2
        exit 1
    fi
}

# The C++ compiler to use: CXX if set, else the first g++ of version 12 or newer; nothing if none.
mgi_compiler() {
    local candidate version
    for candidate in "${CXX:-}" g++ g++-15 g++-14 g++-13 g++-12; do
        [ -n "$candidate" ] || continue
        version=$("$candidate" -dumpversion 2>/dev/null) || continue
        if [ "$candidate" = "${CXX:-}" ] || [ "${version%%.*}" -ge 12 ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# The Python that makes .venv: MGI_PYTHON if set, else the system's own, for which apt has headers.
mgi_python() { printf '%s\n' "${MGI_PYTHON:-/usr/bin/python3}"; }

# The nvcc to use, of CUDA 13 or newer: CUDACXX if set, else a toolkit's, else the one in .venv;
# nothing if none.
mgi_nvcc() {
    local candidate release
    for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
        "$PWD"/.venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            release=$("$candidate" --version | sed -n -E 's/.*release ([0-9]+).*/\1/p')
            if [ "${release:-0}" -ge 13 ]; then
                printf '%s\n' "$candidate"
                return
            fi
        fi
    done
}

# One line that changes with the content of the given files and folders.
content_of() {
    find "$@" -type f ! -path '*/__pycache__/*' -print0 2>/dev/null | sort -z |
        xargs -0 -r sha256sum | sha256sum | cut -d' ' -f1
}
