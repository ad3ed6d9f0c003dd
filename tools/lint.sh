#!/usr/bin/env bash
# Formatting and static checks, with the pinned tools of .venv (tools/setup.sh test).
#
#   tools/lint.sh [--fix] [--no-tidy] [FILE...]
#
# --fix writes formatting and ruff's safe repairs. clang-tidy needs build/release to be configured;
# with FILEs it reads only those, else every .cpp of src/, bench/ and examples/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"

fix="" tidy=1 files=()
for argument in "$@"; do
    case "$argument" in
        --fix) fix=1 ;;
        --no-tidy) tidy="" ;;
        -*) echo "usage: tools/lint.sh [--fix] [--no-tidy] [FILE...]" >&2; exit 2 ;;
        *) files+=("$argument") ;;
    esac
done
status=0
mkdir -p build

report() {
    printf -- '-- %s\n' "$*"
}

folders=()
for folder in include src bench tests examples python; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
done

report "clang-format $(clang-format --version | grep -oE '[0-9]+\.[0-9.]+' | head -n 1)"
mapfile -t sources < <(find "${folders[@]}" -type f -regextype posix-extended \
    -regex '.*\.(cpp|hpp|cu|cuh|h|inl)' | sort)
if [ -n "$fix" ]; then
    clang-format --style=file -i "${sources[@]}" || status=1
elif ! clang-format --style=file --dry-run --Werror "${sources[@]}" 2>build/clang-format.log; then
    echo "not formatted (details: build/clang-format.log; tools/lint.sh --fix repairs them):"
    sed -n -E 's/^([^ :]+):[0-9]+:.*error.*/    \1/p' build/clang-format.log | sort | uniq -c
    status=1
fi

report "ruff"
if [ -n "$fix" ]; then
    ruff check --quiet --fix . || status=1
    ruff format --quiet . || status=1
else
    ruff check --quiet --output-format concise . || status=1
    ruff format --check . || status=1
fi

report "the layers of the house, the length of files"
python3 tools/check_tree.py || status=1

report "mutations still fit the code they weaken"
python3 tools/mutate --list >/dev/null || status=1

if command -v shellcheck >/dev/null; then
    report "shellcheck"
    shellcheck -x -S warning demo.sh test.sh .ci/run tools/*.sh tools/setup/*.sh || status=1
fi

if [ -n "$tidy" ]; then
    database=build/release/compile_commands.json
    if [ ! -e "$database" ]; then
        report "clang-tidy needs $database: cmake --preset release"
        exit 1
    fi
    listed=$(python3 tools/tidy_units.py "$database" "${files[@]}")
    mapfile -t units <<<"$listed"
    report "clang-tidy on ${#units[@]} sources"
    printf '%s\0' "${units[@]}" |
        xargs -0 -r -n 1 -P "$(nproc)" tools/tidy_one.sh || status=1
fi
exit "$status"
