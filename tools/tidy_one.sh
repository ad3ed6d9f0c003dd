#!/usr/bin/env bash
# clang-tidy on one source of build/release/compile_commands.json; where that compiles some at a time
# (CMake's unity build), on all of them. Quiet unless it has something to say; what passed is not read
# again until it, a header, or the rules change.
set -euo pipefail
file=$1
mkdir -p build/tidy
stamp="build/tidy/$(realpath --relative-to=. "$file" | tr / _)"
mapfile -t read < <(sed -n 's/^#include "\(\/.*\)"$/\1/p' "$file")
if [ -e "$stamp" ] && [ -z "$(find "$file" .clang-tidy "${read[@]}" -newer "$stamp" -print -quit)" ] &&
    [ -z "$(find include src bench -name '*.hpp' -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
if output=$(clang-tidy --quiet -p build/release "$file" 2>/dev/null); then
    touch "$stamp"
else
    printf '%s\n' "$output"
    exit 1
fi
