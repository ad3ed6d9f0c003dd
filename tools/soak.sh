#!/usr/bin/env bash
# Random seeds for MINUTES (default 10), under ThreadSanitizer and AddressSanitizer by turns: protocols
# under hostile schedules (mgi_hostile), and the runtime's random flows on real threads (mgi_tests).
# What fails names the seed, and the command that replays it.
#
#   tools/soak.sh [MINUTES]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minutes=${1:-10}
threads_filter='Seeds/Property.*:*Pipeline*:*DeviceExchange*'

for preset in tsan asan; do
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" -- --quiet
done

# run_flows <program> <seconds>: the real-thread tests, each round with a seed of its own.
run_flows() {
    local end=$((SECONDS + $2)) rounds=0 seed
    while [ "$SECONDS" -lt "$end" ]; do
        seed=$((RANDOM * 32768 + RANDOM))
        if ! MGI_TEST_SEED=$seed tools/fixed_addresses.sh "$1" --gtest_brief=1 \
            --gtest_filter="$threads_filter"; then
            echo "replay it with: MGI_TEST_SEED=$seed $1 --gtest_filter='$threads_filter'" >&2
            return 1
        fi
        rounds=$((rounds + 1))
    done
    echo "$1: $rounds rounds of random flows passed"
}

# A quarter of the time for each; rounds of two minutes or less, so that an early end has seen all.
end=$((SECONDS + $(python3 -c "print(int($minutes * 60))")))
while [ "$SECONDS" -lt "$end" ]; do
    slice=$(((end - SECONDS + 3) / 4))
    [ "$slice" -le 30 ] || slice=30
    for preset in tsan asan; do
        tools/fixed_addresses.sh "build/$preset/mgi_hostile" \
            --minutes "$(python3 -c "print($slice / 60)")"
        run_flows "build/$preset/mgi_tests" "$slice"
    done
done
echo "soaked for $minutes minutes"
