#!/usr/bin/env bash
# Builds and runs what needs a GPU, on a machine with CUDA 13 (nvcc, compute-sanitizer), a compiler and
# Python: the device calls' exchange test, the same under compute-sanitizer. Writes the results as JSON.
#
#   tools/gpu/run.sh [RESULTS.json]        default: gpu-results.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
results=${1:-gpu-results.json}
export PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "tools/gpu/run.sh: no nvcc; install CUDA 13" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "tools/gpu/run.sh: no GPU driver" >&2; exit 2; }

build=build/gpu
mkdir -p "$build"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
echo "-- $gpu, sm_$capability"
nvcc -std=c++20 -O3 -lineinfo -arch="sm_$capability" --expt-relaxed-constexpr -Iinclude -Itests -Isrc \
    tests/gpu/exchange.cu tests/gpu/managed.cpp src/core/schema.cpp src/core/error.cpp src/core/text.cpp \
    src/memory/segment_layout.cpp src/memory/segment_ranges.cpp -o "$build/exchange"

failed=0
CUDA_MODULE_LOADING=EAGER timeout 300 "$build/exchange" --json "$build/exchange.json" || failed=1
checks=
for tool in memcheck racecheck synccheck; do
    if timeout 200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/exchange" --small \
        >"$build/$tool.log" 2>&1; then
        verdict=clean
    else
        verdict=failed
        failed=1
        tail -n 30 "$build/$tool.log"
    fi
    echo "-- $tool: $verdict"
    checks+="${checks:+, }\"$tool\": \"$verdict\""
done
[ -e "$build/exchange.json" ] || echo '[]' >"$build/exchange.json"
printf '{"gpu": "%s", "exchange": %s, "sanitizer": {%s}}\n' \
    "$gpu" "$(cat "$build/exchange.json")" "$checks" >"$results"
python3 -m json.tool "$results" >/dev/null
echo "-- results in $results"
exit "$failed"
