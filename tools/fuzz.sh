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

targets=(core_list numa_nodes arrow_schema arrow_batch nested_value plan topology_file corrections agent_message
         control_frames plan_bytes cluster wire http_request)
target=${1:-all} what=${2:-60} jobs=${JOBS:-$(nproc)}
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
logged build/build-fuzz.log cmake --build --preset fuzz -t mgi_fuzz -j "$jobs"

if [ -z "$limit" ]; then
    exec "build/fuzz/fuzz_$target" "$what"
fi

# Runs one target and prints, in one piece, how that went.
fuzz() {
    local name=$1 learned=build/fuzz/corpus/$1 log=build/fuzz/$1.log file seeds=()
    mkdir -p "$learned"
    if [ -d "tests/fuzz/corpus/$name" ]; then seeds=("tests/fuzz/corpus/$name"); fi
    if "build/fuzz/fuzz_$name" "$limit" -timeout=20 -rss_limit_mb=1500 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$name-" "$learned" "${seeds[@]}" >"$log" 2>&1; then
        printf 'ok      %-13s %s\n' "$name" "$(grep -a '^Done' "$log")"
        return
    fi
    file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    printf 'FAILED  %s: the end of %s:\n%s\n%s\nrun it again with: tools/fuzz.sh %s %s\n' "$name" "$log" \
        "$(grep -a -E 'what\(\)|ERROR|runtime error|SUMMARY' "$log" | head -n 5)" \
        "$(tail -n 20 "$log")" "$name" "${file:-<no file was written>}"
}
export -f fuzz
export limit

# Each has one thread: as many at a time as compilers.
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}' | tee build/fuzz/results
passed=$(grep -a -c '^ok ' build/fuzz/results || true)
failed=$((${#targets[@]} - passed))
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
