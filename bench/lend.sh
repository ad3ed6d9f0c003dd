#!/usr/bin/env bash
# How soon an owner has its NIC back from who borrows it, between two network namespaces joined by two
# pairs of veth: one JSON line with both devices in one process, and one with each in its own. Needs
# root, iproute2 and a release build.
#
#   bench/lend.sh [--rate 2gbit] [options of `bench_lend send`]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program="${BENCH_LEND:-build/release/bench_lend}"
rate="2gbit" options=()
while [ $# -gt 0 ]; do
    case "$1" in
        --rate) rate="$2"; shift 2 ;;
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        *) options+=("$1"); shift ;;
    esac
done
if [ ! -x "$program" ]; then
    echo "no $program; cmake --preset release && cmake --build --preset release --target bench_lend" >&2
    exit 2
fi

one="mgi-lend-$$-1" two="mgi-lend-$$-2" receiver=""
cleanup() {
    if [ -n "$receiver" ]; then kill "$receiver" 2>/dev/null || true; fi
    ip netns delete "$one" 2>/dev/null || true
    ip netns delete "$two" 2>/dev/null || true
}
trap cleanup EXIT

ip netns add "$one"
ip netns add "$two"
for nic in 1 2; do
    ip link add "nic$nic" netns "$one" type veth peer name "nic$nic" netns "$two"
    for end in 1 2; do
        space="$one"
        if [ "$end" = 2 ]; then space="$two"; fi
        ip -n "$space" address add "10.78.$nic.$end/24" dev "nic$nic"
        ip -n "$space" link set "nic$nic" up
        tc -n "$space" qdisc add dev "nic$nic" root tbf rate "$rate" burst 256kb latency 50ms
    done
done

for processes in "" --processes; do
    ip netns exec "$two" "$program" receive 10.78.1.2:7000 10.78.2.2:7000 "${options[@]}" &
    receiver=$!
    sleep 0.5
    ip netns exec "$one" timeout 300 "$program" send 10.78.1.1:0=10.78.1.2:7000 \
        10.78.2.1:0=10.78.2.2:7000 $processes "${options[@]}"
    wait "$receiver"
    receiver=""
done
