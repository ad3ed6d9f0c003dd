#!/usr/bin/env bash
# Sets up what is missing and runs the tests: a tier of them, or only the steps that are named.
#
#   ./test.sh               what CI runs; 22 to 75 minutes on two cores from a bare clone, then two thirds
#   ./test.sh quick         while working: format, and every C++ test that takes less than a second
#   ./test.sh full          all there is, with more seeds: before a large change is called done
#   ./test.sh [TIER] STEP...
#
#   format    formatting, layering, shell scripts            hostile  hostile schedules, by seeds
#   lint      the same, clang-tidy, headers on their own     fuzz     each fuzz target for a while
#   unit      C++ tests, optimized build                     mutate   that Relacy notices mutants
#   tsan      what has threads, under ThreadSanitizer        package  find_package(mgi) of an install
#   asan      what parses, decodes, allocates and lays       cuda     .cu sources through nvcc
#             memory out, under Address- and UBSanitizer     readme   what a new user types
#   python    the Python package's tests                     models   the protocols' Spin models
#   examples  every example runs                             relacy   the protocols, relaxed memory
#
# CONTRIBUTING.md says what each step proves, in which tiers it is, and how long it takes. A test that
# hangs prints every thread's stack and fails. Environment: JOBS (compilers, or programs with one thread,
# at a time; default: one per core), GTEST_FILTER and PYTEST_ADDOPTS to choose tests, MGI_TEST_CASES (percent
# of random cases) and FUZZ (seconds for each fuzz target) instead of the tier's, and what tools/setup.sh
# reads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/setup/common.sh
jobs=${JOBS:-$(nproc)}

all_steps=(format lint models relacy unit tsan asan hostile fuzz mutate python package examples cuda readme)

tier=default
case "${1:-}" in
    -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    quick | full) tier=$1 && shift ;;
esac
steps=("$@")
if [ "${#steps[@]}" -eq 0 ]; then
    case "$tier" in
        quick) steps=(format unit) ;;
        default) steps=(lint models relacy unit tsan asan hostile fuzz python package examples cuda readme) ;;
        full) steps=(lint models relacy unit tsan asan hostile fuzz mutate python package examples cuda readme) ;;
    esac
fi
for step in "${steps[@]}"; do
    case " ${all_steps[*]} " in
        *" $step "*) ;;
        *) echo "test.sh: no step '$step'; there are: ${all_steps[*]}" >&2; exit 2 ;;
    esac
done
ahead=  # the process that compiles CUDA sources beside another step
trap 'echo "test.sh: interrupted" >&2; [ -z "$ahead" ] || kill -- "-$ahead"; exit 130' INT TERM

# by_tier <quick> <default> <full>: what holds in this tier.
by_tier() {
    case "$tier" in
        quick) printf '%s\n' "$1" ;;
        default) printf '%s\n' "$2" ;;
        full) printf '%s\n' "$3" ;;
    esac
}
# Eight times the cases of the default tier take a test's guard longer, too.
if [ "$tier" = full ]; then export MGI_TEST_LIMIT=${MGI_TEST_LIMIT:-600}; fi
export MGI_TEST_CASES=${MGI_TEST_CASES:-$(by_tier 10 25 200)}
FUZZ=${FUZZ:-$(by_tier 1 4 60)}
# Up to GCC 13 and LLVM 16 the leak check may take the words ahead of a library's thread-local memory for its size, and
# die of it (google/sanitizers, "Tracer caught signal 11").
export ASAN_OPTIONS="intercept_tls_get_addr=0 ${ASAN_OPTIONS:-}"

heading() { printf '\n======== %s\n' "$*"; }

# building <command...>: counts as building in the table at the end.
building() {
    local began=$EPOCHSECONDS status=0
    "$@" || status=$?
    echo "$((EPOCHSECONDS - began))" >>"build/steps/$step.build"
    return "$status"
}

# build <preset> [-t TARGET...] [-- CMAKE_OPTION...]: configures and builds one preset, or only the targets.
build() {
    local preset=$1 targets=()
    shift
    if [ "${1:-}" = -t ]; then
        while [ "$#" -gt 0 ] && [ "$1" != -- ]; do targets+=("$1") && shift; done
    fi
    if [ "${1:-}" = -- ]; then shift; fi
    logged "build/configure-$preset.log" cmake --preset "$preset" "$@"
    building cmake --build --preset "$preset" "${targets[@]}" -j "$jobs" -- --quiet
}

# with_stacks <seconds> <command...>: the whole run's limit; minutes without a word are a hang too.
with_stacks() {
    local limit=$1
    shift
    python3 tools/run_with_stacks.py --limit "$limit" --silence "$(by_tier 300 300 1200)" -- "$@"
}

# side_by_side <seconds> <command line...>: as many at a time as compilers, or `at_once`; for those with one
# thread.
side_by_side() {
    local limit=$1
    shift
    printf '%s\0' "$@" >build/side_by_side
    with_stacks "$limit" xargs -0 -a build/side_by_side -P "${at_once:-$jobs}" -I{} bash -c {}
}

# sharded <seconds> <command line>: a GoogleTest program's tests, dealt out to twice as many processes as
# there are compilers at a time: tests wait, too.
sharded() {
    local limit=$1 shards=$((2 * jobs)) shard commands=()
    for ((shard = 0; shard < shards; ++shard)); do
        commands+=("GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard exec $2")
    done
    at_once=$shards side_by_side "$limit" "${commands[@]}"
}

step_format() {
    tools/lint.sh --no-tidy
}

step_lint() {
    logged build/configure-release.log cmake --preset release
    # Every public header on its own; and the generated headers that clang-tidy reads.
    building cmake --build build/release --target mgi_header_check mgi_control_proto -j "$jobs" -- --quiet
    tools/lint.sh
}

step_models() {
    with_stacks 600 tools/models.py
}

# Slow tests are those that take more than a second: random flows, faults, and what waits for a process.
slow_tests="LinkSpares.*:LinkFaults.*:*Property.*:*Seeds/*:*ProcessTest.*:GpuProcess.*:Congestion.*"
slow_tests+=":*Ordered.*:*Pipeline.*:GpuFounding.*:GpuDirectFounding.*:GpuRuntime.*Tiles*:*LinkNics.*"
slow_tests+=":ServersBroadcast.*:Servers.*Stalled"

step_unit() {
    if [ "$tier" = quick ]; then
        build release -t mgi_tests
        GTEST_FILTER=${GTEST_FILTER:-"-$slow_tests"} sharded 300 build/release/mgi_tests
        return
    fi
    # The programs of bench/ only have to compile, which clang-tidy sees.
    if [ "$tier" = full ]; then build release; else build release -t mgi_tests mgi_control_tests mgi_faults; fi
    sharded 900 build/release/mgi_tests
    sharded 300 build/release/mgi_control_tests
    with_stacks 300 build/release/mgi_faults
}

step_tsan() {
    build tsan -- -DMGI_TEST_SCOPE="$(by_tier part part all)"
    export TSAN_OPTIONS="second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
    sharded 1500 "tools/fixed_addresses.sh build/tsan/mgi_tests"
    # The system's libcurl and OpenSSL are not instrumented.
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1 $TSAN_OPTIONS"
    sharded 600 "tools/fixed_addresses.sh build/tsan/mgi_control_tests"
}

# The rooms that parse, decode, allocate and lay memory out, built by clang as they are fuzzed; then, in full,
# all tests, built by g++, and the control plane's with what its state machine asserts.
step_asan() {
    export ASAN_OPTIONS="detect_stack_use_after_return=1 ${ASAN_OPTIONS:-}"
    export UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"
    build fuzz -t mgi_fuzzed_tests
    sharded 600 build/fuzz/mgi_fuzzed_tests
    [ "$tier" = full ] || return 0
    build asan -t mgi_tests mgi_control_tests mgi_faults
    sharded 1800 build/asan/mgi_tests
    # The only leaks that count are found at the end.
    with_stacks 900 build/asan/mgi_faults
    sharded 900 build/asan/mgi_control_tests
}

# Seeds are shared out: plain ones are many and cheap, sanitizers see what is silent. The longest
# come first.
step_hostile() {
    build release -t mgi_hostile
    build tsan -t mgi_hostile
    local plain sanitized
    plain=$(by_tier 500 3000 20000) sanitized=$(by_tier 50 300 3000)
    local runs=("tools/fixed_addresses.sh build/tsan/mgi_hostile --first 100000 --seeds $sanitized")
    if [ "$tier" = full ]; then
        build fuzz -t mgi_hostile
        runs+=("build/fuzz/mgi_hostile --first 200000 --seeds $sanitized")
    fi
    side_by_side "$(by_tier 300 900 5400)" "${runs[@]}" \
        "build/release/mgi_hostile --sweep $((plain / 40))" "build/release/mgi_hostile --seeds $plain"
}

step_relacy() {
    logged build/configure-release.log cmake --preset release
    building cmake --build build/release --target mgi_relacy -j "$jobs" -- --quiet
    local scenarios
    mapfile -t scenarios < <(build/release/mgi_relacy --list | cut -d ' ' -f 1)
    [ "${#scenarios[@]}" -gt 0 ] || { echo "mgi_relacy lists no scenario"; return 1; }
    MGI_RELACY_ITERATIONS=${MGI_RELACY_ITERATIONS:-$(by_tier 0.1 0.3 2)} \
        side_by_side 1200 "${scenarios[@]/#/build/release/mgi_relacy }"
}

step_fuzz() {
    build fuzz -t mgi_fuzz
    with_stacks "$((120 + 12 * FUZZ))" tools/fuzz.sh all "$FUZZ"
}

# What survives is a hole in the tests (docs/mutation.md).
step_mutate() {
    MGI_RELACY_ITERATIONS=0.5 with_stacks 3600 tools/mutate --check relacy --jobs "$jobs"
}

step_python() {
    build release -t mgi-control mgi_cluster_app mgi_fake_cuda  # what tests start and load
    local beside by_clock
    with_stacks 900 .venv/bin/python -m pytest -q -m "not by_clock" -n "$jobs" --dist worksteal && beside=0 || beside=$?
    # More than two at a time take far longer, or fail.
    with_stacks 900 .venv/bin/python -m pytest -q -m by_clock -n 2 --dist loadfile \
        --no-loadscope-reorder && by_clock=0 || by_clock=$?
    # 5: there is none among those that PYTEST_ADDOPTS chooses, which one of the two may say.
    case "$beside $by_clock" in "0 0" | "0 5" | "5 0") ;; *) return 1 ;; esac
}

step_package() {
    build release -t mgi
    rm -rf build/install build/consumer
    logged build/install.log cmake --install build/release --prefix build/install \
        --component development
    logged build/configure-consumer.log cmake -S tests/package -B build/consumer -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$PWD/build/install"
    building cmake --build build/consumer
    with_stacks 60 build/consumer/consumer
}

step_examples() {
    build release -t mgi_examples
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
        CUDACXX=$nvcc CUDAHOSTCXX=$CXX \
        build cuda -- -DMGI_CUDA_ARCHITECTURES="$(by_tier 90-real 90-real '80-real;90-real')" \
        -DCMAKE_CUDA_FLAGS="$(by_tier --Ofast-compile=max --Ofast-compile=max '')" \
        -DMGI_BUILD_BENCH="$(by_tier OFF OFF ON)"
}

step_readme() {
    SF=0.01 ENDPOINTS=4 with_stacks 300 ./demo.sh
    with_stacks 120 .venv/bin/mgi perf exchange --endpoints 4 --rows 400000 --row-bytes 16 \
        --dist zipf:0.9 --repeat 2 --json build/perf.json
    python3 -m json.tool build/perf.json >/dev/null
}

heading "set-up"
rm -rf build/steps
mkdir -p build/steps
started=$SECONDS
# C++ tests need no package of the newest sources.
if [ "$tier ${steps[*]}" = "quick format unit" ]; then export MGI_SETUP_SKIP_PACKAGE=1; fi
if ! tools/setup.sh test; then
    printf '\nset-up failed\n0 passed, 1 failed\n'
    exit 1
fi
CXX=$(mgi_compiler)
export CXX PATH="$PWD/.venv/bin:$PATH"
printf 'set-up\tok\t%s\n' "$((SECONDS - started))" >>build/steps/results
echo "set-up took $((SECONDS - started)) s"

# nvcc compiles with what python's tests, many of which wait, leave of the cores. What it prints is shown in its turn.
start_cuda_ahead() {
    set -m  # a process group of its own, to be ended as a whole
    (
        set -e
        step=cuda
        renice -n 19 "$BASHPID" >/dev/null
        step_cuda
    ) >build/steps/cuda.log 2>&1 </dev/null &
    ahead=$!
    set +m
}

passed=0 failed=0
for step in "${steps[@]}"; do
    heading "$step"
    step_started=$SECONDS
    if [[ $step = python && -z $ahead && " ${steps[*]} " = *" python"*" cuda "* ]]; then start_cuda_ahead; fi
    # A subshell that is no condition: there -e holds.
    set +e
    if [[ $step = cuda && -n $ahead ]]; then
        wait "$ahead"
        status=$?
        cat build/steps/cuda.log
        # What is left of it by then.
        echo "$((SECONDS - step_started))" >build/steps/cuda.build
    else
        (
            set -e
            "step_$step"
        ) 2>&1 | tee "build/steps/$step.log"
        status=${PIPESTATUS[0]}
    fi
    set -e
    took=$((SECONDS - step_started))
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1)) verdict=ok
    else
        failed=$((failed + 1)) verdict="FAILED ($status)"
    fi
    printf '%s\t%s\t%s\n' "$step" "$verdict" "$took" >>build/steps/results
    echo "-------- $step: $verdict, $took s"
done

heading "summary of $tier ($((SECONDS - started)) s)"
python3 tools/test_table.py build/steps --json build/test-table.json
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
