#!/usr/bin/env bash
# Builds, checks and measures what runs on a GPU, on a machine with CUDA 13 (nvcc, compute-sanitizer), CMake, a
# compiler and Python: the device calls' exchange test and the runtime's tests, the same under
# compute-sanitizer, how fast movers are, and the benchmarks of bench/gpu. Writes the results as JSON, and a page
# of charts beside it.
#
#   tools/gpu/run.sh [quick|full|large] [RESULTS.json]        default: full gpu-results.json
#
# quick: a tenth of the data and fewer cases, a minute or two. full: below 8 minutes. large: operators on tables
# of TPC-H's sizes at SF 100 in place of 10.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
how=full
case "${1:-}" in
    quick | full | large) how=$1; shift ;;
    *.json | "") ;;
    *) echo "tools/gpu/run.sh: no '$1'; there are: quick, full, large" >&2; exit 2 ;;
esac
results=${1:-gpu-results.json}
export PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "tools/gpu/run.sh: no nvcc; install CUDA 13" >&2; exit 2; }
command -v cmake >/dev/null || { echo "tools/gpu/run.sh: no cmake" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "tools/gpu/run.sh: no GPU driver" >&2; exit 2; }
# Kernels that are loaded at their first launch would wait for those that run.
export CUDA_MODULE_LOADING=EAGER

build=build/gpu
mkdir -p "$build"/{bench,tests,runtime,operators,operator_tests}
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
architecture=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
echo "-- $gpu, driver $driver, $architecture, $how"

compile() { # architecture, folder, source
    local options=(--expt-relaxed-constexpr)
    # As cmake/MgiCuda.cmake has it.
    case "$3" in src/operators/*) options+=(-maxrregcount=128) ;; esac
    nvcc -std=c++20 -O3 -lineinfo -arch="$1" "${options[@]}" -Iinclude -Isrc -Itests \
        -c "$3" -o "$2/$(basename "$3").o"
}
export -f compile
# The library itself, beside all others.
{
    cmake -S . -B "$build/lib" -DCMAKE_BUILD_TYPE=Release -DMGI_THIRD_PARTY=OFF \
        -DMGI_BUILD_TESTS=OFF -DMGI_BUILD_EXAMPLES=OFF -DMGI_BUILD_BENCH=OFF -DMGI_BUILD_CONTROL=OFF &&
        cmake --build "$build/lib" --target mgi --parallel "$(nproc)"
} >"$build/lib.log" 2>&1 &
library=$!
core=(src/core/{schema,error,text}.cpp src/memory/segment_layout.cpp)
{
    printf "$build/tests %s\n" tests/gpu/{exchange.cu,managed.cpp} "${core[@]}" \
        src/memory/segment_ranges.cpp
    printf "$build/runtime %s\n" tests/gpu/runtime*.cu tests/support/{meeting,shared_channel}.cpp
    printf "$build/operators %s\n" src/operators/gpu/*.cu
    printf "$build/operator_tests %s\n" tests/gpu/operators*.cu
    printf "$build/bench %s\n" bench/gpu/*.cu tests/support/meeting.cpp
} | xargs -P "$(nproc)" -I{} bash -c "set -e; compile $architecture {}"
wait "$library" || { tail -n 30 "$build/lib.log" >&2; exit 1; }
nvcc -arch="$architecture" "$build"/tests/*.o -o "$build/exchange"
nvcc -arch="$architecture" "$build"/runtime/*.o "$build/lib/libmgi.a" -lpthread -ldl \
    -o "$build/runtime/runtime"
operators=("$build"/operators/*.o "$build/lib/libmgi.a" -lpthread -ldl)
nvcc -arch="$architecture" "$build"/operator_tests/*.o "${operators[@]}" -o "$build/operators/operators"
nvcc -arch="$architecture" "$build"/bench/*.o "${operators[@]}" -o "$build/mgi_gpu_bench"
echo "-- built in $SECONDS s"

failed=0
timeout 120 "$build/exchange" --json "$build/exchange.json" || failed=1
if ! timeout 180 "$build/runtime/runtime" 2>"$build/runtime.log"; then
    failed=1
    tail -n 30 "$build/runtime.log"
fi
timeout 90 "$build/runtime/runtime" --movers "$build/movers.json" >/dev/null || failed=1
timeout 240 "$build/operators/operators" || failed=1
checks=
sanitize() { # name, tool, program...
    local name=$1 tool=$2 verdict=clean
    shift 2
    if ! timeout 200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" \
        >"$build/$name.log" 2>&1; then
        verdict=failed
        failed=1
        tail -n 30 "$build/$name.log"
    fi
    echo "-- $name: $verdict"
    checks+="${checks:+, }\"$name\": \"$verdict\""
}
for tool in memcheck synccheck; do
    sanitize "$tool" "$tool" "$build/exchange" --small
done
sanitize racecheck racecheck "$build/exchange" --small --no-clerks
sanitize "memcheck of the runtime" memcheck "$build/runtime/runtime" --small
# Its tests ask for what CUDA refuses, too.
sanitize "memcheck of the operators" memcheck --report-api-errors no "$build/operators/operators" --small
echo "-- checked after $SECONDS s"

options=()
[ "$how" != quick ] || options=(--quick)
sizes=("${options[@]}")
[ "$how" != large ] || sizes=(--large)
timeout 300 "$build/mgi_gpu_bench" "${sizes[@]}" --json "$build/bench.json" >"$build/bench.out" || failed=1
python3 bench/gpu/torch_partition.py "${options[@]}" --json "$build/torch.json" >/dev/null || failed=1
lines=60000000
[ "$how" != quick ] || lines=6000000
[ "$how" != large ] || lines=600000000
python3 python/mgi/perf/programs/gpu_libraries.py --lines "$lines" --json "$build/torch_operators.json" >/dev/null || failed=1
for part in exchange movers bench torch torch_operators; do
    [ -s "$build/$part.json" ] || echo '[]' >"$build/$part.json"
done
printf '{"gpu": "%s", "driver": "%s", "date": "%s", "how": "%s", "seconds": %d, "sanitizer": {%s},\n' \
    "$gpu" "$driver" "$(date -u +%F)" "$how" "$SECONDS" "$checks" >"$results"
printf '"exchange": %s,\n"movers": %s,\n"benchmarks": %s,\n"torch": %s,\n"torch_operators": %s}\n' \
    "$(cat "$build/exchange.json")" "$(cat "$build/movers.json")" "$(cat "$build/bench.json")" \
    "$(cat "$build/torch.json")" "$(cat "$build/torch_operators.json")" >>"$results"
python3 -m json.tool "$results" >/dev/null
python3 tools/gpu/plot.py "$results" "${results%.json}.html"
echo "-- $SECONDS s; results in $results, charts in ${results%.json}.html"
exit "$failed"
