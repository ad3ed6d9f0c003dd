#!/usr/bin/env bash
# Sets up this clone: system packages, .venv, the built package. Does only what is missing.
#
#   tools/setup.sh [demo|control|test]      demo is the default; control adds the control plane
#                                           (protobuf, libcurl), test that and what lint and the tests need
#
# Environment: CXX (compiler), MGI_PYTHON (Python for .venv), MGI_SETUP_SKIP_APT=1 (never call apt),
# MGI_SETUP_SKIP_PACKAGE=1 (a package that was built before will do), MGI_CUDA=1 (the package is for
# GPUs, too, although there is none here) or 0 (it is not, although there is).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for part in common system python package; do
    # shellcheck disable=SC1090
    . "tools/setup/$part.sh"
done

purpose=${1:-demo}
case "$purpose" in
    demo | control | test) ;;
    *) fail "usage: tools/setup.sh [demo|control|test]" ;;
esac

mkdir -p build
# Two set-ups of one clone at a time would undo each other's work.
exec 9>build/.setup.lock
flock 9

install_system_packages "$purpose"
make_environment
install_requirements demo requirements.txt
if [ "$purpose" = test ]; then
    install_requirements test requirements-test.txt
fi
if [ "$purpose" = test ] || [ "${MGI_CUDA:-}" = 1 ]; then
    if [ -z "$(mgi_nvcc)" ] || [ -e .venv/.mgi/cuda ]; then
        install_requirements cuda requirements-cuda.txt
    fi
fi
if [ -z "${MGI_SETUP_SKIP_PACKAGE:-}" ] || [ ! -e .venv/.mgi/package ]; then
    install_package "$purpose"
fi
