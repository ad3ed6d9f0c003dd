# Makes .venv, the project's own Python environment, and installs the pinned requirements into it.
# shellcheck shell=bash

# Makes .venv unless there is a working one of this very folder and Python version.
make_environment() {
    local python version key
    python=$(mgi_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        fail "no Python at $python; set MGI_PYTHON to one of version 3.10 or newer"
    case "$version" in
        2.* | 3.[0-9]) fail "Python $version at $python is too old: 3.10 or newer is needed; set MGI_PYTHON" ;;
    esac
    key="$PWD $python $version"
    if [ -x .venv/bin/python ] && [ "$(cat .venv/.mgi/environment 2>/dev/null)" = "$key" ]; then
        return
    fi
    say "making the Python environment .venv (Python $version)"
    rm -rf .venv
    logged build/setup-venv.log "$python" -m venv .venv
    mkdir -p .venv/.mgi
    printf '%s\n' "$key" >.venv/.mgi/environment
}

# install_requirements <name> <file>...: once per content of the files. Only wheels, and only those whose hash
# stands in the files (tools/pins.py writes it): no package brings another one along, nor runs its own set-up.
install_requirements() {
    local name=$1 stamp
    shift
    stamp=$(content_of "$@")
    if [ "$(cat ".venv/.mgi/$name" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    say "installing Python packages into .venv: $*"
    local arguments=() file
    for file in "$@"; do
        arguments+=(-r "$file")
    done
    logged "build/setup-pip-$name.log" .venv/bin/python -m pip install --disable-pip-version-check \
        --progress-bar off --retries 5 --require-hashes --only-binary :all: "${arguments[@]}"
    printf '%s\n' "$stamp" >".venv/.mgi/$name"
}
