#!/usr/bin/env bash
# Fuzzes what parses and decodes input, with libFuzzer, AddressSanitizer and UBSan (needs clang).
#
#   tools/fuzz.sh [TARGET|all] [SECONDS | RUNSx]      tools/fuzz.sh all 600; tools/fuzz.sh plan 20000x
#   tools/fuzz.sh TARGET FILE                         runs one input again
#
# TARGETs stand in tests/fuzz/targets.hpp. Each starts from tests/fuzz/corpus/TARGET and keeps what it
# learns in build/fuzz/corpus/TARGET. An input that crashes is kept in build/fuzz/found, and the
# command that runs it again is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/setup/common.sh

targets=(core_list numa_nodes arrow_schema arrow_batch plan topology_file corrections agent_message
         plan_bytes cluster)
target=${1:-all} what=${2:-60}
case " all ${targets[*]} " in
    *" $target "*) ;;
    *) echo "fuzz: no target '$target'; there are: ${targets[*]}, and all" >&2; exit 2 ;;
esac
if ! command -v clang++ >/dev/null; then
    echo "fuzz: no clang++. On Debian or Ubuntu: apt-get install clang" >&2
    exit 1
fi
limit=""
if [ ! -f "$what" ]; then
    case "$what" in
        *[!0-9x]* | x* | *x?*)
            echo "fuzz: '$what' is no number of seconds, runs (20000x) or file" >&2
            exit 2
            ;;
        *x) limit="-runs=${what%x}" ;;
        *) limit="-max_total_time=$what" ;;
    esac
fi
[ "$target" = all ] || targets=("$target")

mkdir -p build/fuzz/found
PATH="$PWD/.venv/bin:$PATH"
logged build/configure-fuzz.log cmake --preset fuzz
logged build/build-fuzz.log cmake --build --preset fuzz -j "${JOBS:-$(nproc)}"

if [ -z "$limit" ]; then
    exec "build/fuzz/fuzz_$target" "$what"
fi
passed=0 failed=0
for name in "${targets[@]}"; do
    learned=build/fuzz/corpus/$name log=build/fuzz/$name.log
    mkdir -p "$learned"
    seeds=()
    if [ -d "tests/fuzz/corpus/$name" ]; then seeds=("tests/fuzz/corpus/$name"); fi
    if "build/fuzz/fuzz_$name" "$limit" -timeout=20 -rss_limit_mb=1500 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$name-" "$learned" "${seeds[@]}" >"$log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %-13s %s\n' "$name" "$(grep -a '^Done' "$log")"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s: the end of %s:\n' "$name" "$log"
        grep -a -E 'what\(\)|ERROR|runtime error|SUMMARY' "$log" | head -n 5
        tail -n 20 "$log"
        file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        printf 'run it again with: tools/fuzz.sh %s %s\n' "$name" "${file:-<no file was written>}"
    fi
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
