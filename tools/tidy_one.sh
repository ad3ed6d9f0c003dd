#!/usr/bin/env bash
# clang-tidy on one source. Quiet unless it has something to say; a file that passed is not read
# again until it, a header, or the rules change.
set -euo pipefail
file=$1
mkdir -p build/tidy
stamp="build/tidy/${file//\//_}"
if [ -e "$stamp" ] && [ "$stamp" -nt "$file" ] && [ "$stamp" -nt .clang-tidy ] &&
    [ -z "$(find include src bench -name '*.hpp' -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
if output=$(clang-tidy --quiet -p build/release "$file" 2>/dev/null); then
    touch "$stamp"
else
    printf '%s\n' "$output"
    exit 1
fi
