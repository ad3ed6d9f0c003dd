#!/usr/bin/env bash
# Sets up what is missing and runs every test, or only the steps that are named.
#
#   ./test.sh [STEP...]
#
#   lint      formatting, static checks, layering        examples  every example runs
#   unit      C++ tests, optimized build                 cuda      .cu sources through nvcc
#   tsan      the same under ThreadSanitizer             package   find_package(mgi) from an install
#   asan      the same under Address- and UBSanitizer    readme    the commands a new user types
#   python    the Python package's tests                 models    the protocols' Spin models
#   hostile   10 000 hostile schedules                   relacy    the protocols, relaxed memory
#   fuzz      each fuzz target for a while               mutate    that tests notice: a sample
#
# A test that hangs prints every thread's stack and fails. Environment: JOBS (compilers, or
# programs with one thread, at a time; default: one per core), FUZZ (seconds for each fuzz target,
# default: 5), GTEST_FILTER and PYTEST_ADDOPTS to choose tests, and what tools/setup.sh reads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/setup/common.sh
jobs=${JOBS:-$(nproc)}

all_steps=(lint models relacy unit tsan asan hostile fuzz mutate python package examples cuda readme)
if [[ "${1:-}" = -h || "${1:-}" = --help ]]; then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    exit 0
fi
steps=("$@")
[ "${#steps[@]}" -gt 0 ] || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
    case " ${all_steps[*]} " in
        *" $step "*) ;;
        *) echo "test.sh: no step '$step'; there are: ${all_steps[*]}" >&2; exit 2 ;;
    esac
done
trap 'echo "test.sh: interrupted" >&2; exit 130' INT TERM

heading() { printf '\n======== %s\n' "$*"; }

# Configures and builds one preset; ninja's progress is for people only.
build() {
    local preset=$1
    shift
    logged "build/configure-$preset.log" cmake --preset "$preset" "$@"
    local quiet=()
    [ -t 1 ] || quiet=(-- --quiet)
    cmake --build --preset "$preset" -j "$jobs" "${quiet[@]}"
}

# with_stacks <seconds> <command...>: the whole run's limit; five minutes without a word is a hang too.
with_stacks() {
    local limit=$1
    shift
    python3 tools/run_with_stacks.py --limit "$limit" --silence 300 -- "$@"
}

# side_by_side <seconds> <command line...>: as many at a time as compilers; for those with one thread.
side_by_side() {
    local limit=$1
    shift
    printf '%s\0' "$@" >build/side_by_side
    with_stacks "$limit" xargs -0 -a build/side_by_side -P "$jobs" -I{} bash -c {}
}

# sharded <seconds> <command line>: a GoogleTest program's tests, dealt out to as many processes as there
# are compilers at a time; many of them have one thread, or wait.
sharded() {
    local limit=$1 shard shards=()
    for ((shard = 0; shard < jobs; ++shard)); do
        shards+=("GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard exec $2")
    done
    side_by_side "$limit" "${shards[@]}"
}

step_lint() {
    logged build/configure-release.log cmake --preset release
    # Every public header on its own; and the generated headers that clang-tidy reads.
    cmake --build build/release --target mgi_header_check mgi_control_proto -j "$jobs" -- --quiet
    tools/lint.sh
}

step_models() {
    with_stacks 600 tools/models.py
}

step_unit() {
    build release
    sharded 900 build/release/mgi_tests
    sharded 300 build/release/mgi_control_tests
    with_stacks 300 build/release/mgi_faults
}

step_tsan() {
    build tsan
    TSAN_OPTIONS="second_deadlock_stack=1 ${TSAN_OPTIONS:-}" \
        sharded 1500 "tools/fixed_addresses.sh build/tsan/mgi_tests"
    # The system's gRPC is not instrumented.
    local grpc="ignore_noninstrumented_modules=1 suppressions=tests/control/tsan.supp"
    TSAN_OPTIONS="second_deadlock_stack=1 $grpc ${TSAN_OPTIONS:-}" \
        sharded 600 "tools/fixed_addresses.sh build/tsan/mgi_control_tests"
}

# Not the control plane's tests: what they decode is fuzzed with the same sanitizers, and their build alone
# takes minutes (tests/control/lsan.supp is for who runs them by hand).
step_asan() {
    build asan
    ASAN_OPTIONS="detect_stack_use_after_return=1 ${ASAN_OPTIONS:-}" \
        UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}" \
        sharded 1200 build/asan/mgi_tests
    # The only leaks that count are found at the end.
    with_stacks 600 build/asan/mgi_faults
}

# Seeds are shared out: plain ones are many and cheap, sanitizers see what is silent. The longest
# come first.
step_hostile() {
    build release
    build tsan
    build asan
    side_by_side 900 \
        "tools/fixed_addresses.sh build/tsan/mgi_hostile --first 8250 --seeds 1000" \
        "build/asan/mgi_hostile --first 9250 --seeds 750" \
        "build/release/mgi_hostile --sweep 200" \
        "build/release/mgi_hostile --seeds 8250"
}

step_relacy() {
    logged build/configure-release.log cmake --preset release
    cmake --build build/release --target mgi_relacy -j "$jobs" -- --quiet
    local scenarios
    mapfile -t scenarios < <(build/release/mgi_relacy --list | cut -d ' ' -f 1)
    [ "${#scenarios[@]}" -gt 0 ] || { echo "mgi_relacy lists no scenario"; return 1; }
    side_by_side 600 "${scenarios[@]/#/build/release/mgi_relacy }"
}

step_fuzz() {
    with_stacks 600 tools/fuzz.sh all "${FUZZ:-5}"
}

# Another sample for each commit; what survives is a hole in the tests (docs/mutation.md).
step_mutate() {
    MGI_RELACY_ITERATIONS=0.5 with_stacks 900 tools/mutate --check relacy --sample 1 \
        --seed "$(git rev-parse HEAD 2>/dev/null || echo none)" --jobs "$jobs"
}

step_python() {
    build release  # test_cluster.py's programs
    with_stacks 900 .venv/bin/python -m pytest -q
}

step_package() {
    build release
    rm -rf build/install build/consumer
    logged build/install.log cmake --install build/release --prefix build/install \
        --component development
    logged build/configure-consumer.log cmake -S tests/package -B build/consumer -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$PWD/build/install"
    cmake --build build/consumer
    with_stacks 60 build/consumer/consumer
}

step_examples() {
    build release
    local example
    for example in build/release/examples/*; do
        if [ ! -f "$example" ] || [ ! -x "$example" ]; then continue; fi
        printf -- '-- %s\n' "$example"
        with_stacks 120 "$example"
    done
}

step_cuda() {
    local nvcc
    nvcc=$(mgi_nvcc)
    [ -n "$nvcc" ] || { echo "no nvcc of CUDA 13, neither a toolkit's nor one in .venv"; return 1; }
    echo "-- $nvcc"
    # CMake links a probe; the PyPI packages keep the libraries where nvcc does not look.
    LIBRARY_PATH="$(dirname "$(dirname "$nvcc")")/lib${LIBRARY_PATH:+:$LIBRARY_PATH}" \
        CUDACXX=$nvcc CUDAHOSTCXX=$CXX build cuda
}

step_readme() {
    SF=0.01 ENDPOINTS=4 with_stacks 300 ./demo.sh
    with_stacks 120 .venv/bin/mgi perf exchange --endpoints 4 --rows 400000 --row-bytes 16 \
        --dist zipf:0.9 --repeat 2 --json build/perf.json
    python3 -m json.tool build/perf.json >/dev/null
}

heading "set-up"
started=$SECONDS
if ! tools/setup.sh test; then
    printf '\nset-up failed\n0 passed, 1 failed\n'
    exit 1
fi
CXX=$(mgi_compiler)
export CXX PATH="$PWD/.venv/bin:$PATH"
echo "set-up took $((SECONDS - started)) s"

results=() passed=0 failed=0
for step in "${steps[@]}"; do
    heading "$step"
    step_started=$SECONDS
    # A subshell that is no condition: there -e holds.
    set +e
    (
        set -e
        "step_$step"
    )
    status=$?
    set -e
    took="$((SECONDS - step_started)) s"
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        results+=("$(printf '%-9s ok      %6s' "$step" "$took")")
        echo "-------- $step: ok, $took"
    else
        failed=$((failed + 1))
        results+=("$(printf '%-9s FAILED  %6s   (exit status %d)' "$step" "$took" "$status")")
        echo "-------- $step: FAILED with exit status $status, $took"
    fi
done

heading "summary ($((SECONDS - started)) s)"
printf '%s\n' "${results[@]}"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
