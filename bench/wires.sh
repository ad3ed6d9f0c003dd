#!/usr/bin/env bash
# Links beside plain sockets between two network namespaces joined by veth pairs: one JSON line for each
# number of NICs. Needs root, iproute2 and a release build.
#
#   bench/wires.sh [--rate 1gbit] [--nics "1 2 4"] [options of `bench_wires send`]
#
# --rate limits each NIC by a token bucket; without it the machine's memory is the limit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=build/release/bench_wires
rate="" counts="1 2 4" options=()
while [ $# -gt 0 ]; do
    case "$1" in
        --rate) rate="$2"; shift 2 ;;
        --nics) counts="$2"; shift 2 ;;
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        *) options+=("$1"); shift ;;
    esac
done
if [ ! -x "$program" ]; then
    echo "no $program; cmake --preset release && cmake --build --preset release --target bench_wires" >&2
    exit 2
fi

one="mgi-wires-$$-1" two="mgi-wires-$$-2" receiver=""
cleanup() {
    if [ -n "$receiver" ]; then kill "$receiver" 2>/dev/null || true; fi
    ip netns delete "$one" 2>/dev/null || true
    ip netns delete "$two" 2>/dev/null || true
}
trap cleanup EXIT

ip netns add "$one"
ip netns add "$two"
most=$(tr ' ' '\n' <<<"$counts" | sort -n | tail -n 1)
for ((nic = 1; nic <= most; nic++)); do
    ip link add "nic$nic" netns "$one" type veth peer name "nic$nic" netns "$two"
    for end in 1 2; do
        space="$one"
        if [ "$end" = 2 ]; then space="$two"; fi
        ip -n "$space" address add "10.77.$nic.$end/24" dev "nic$nic"
        ip -n "$space" link set "nic$nic" up
        if [ -n "$rate" ]; then
            tc -n "$space" qdisc add dev "nic$nic" root tbf rate "$rate" burst 256kb latency 50ms
        fi
    done
done

for count in $counts; do
    listens=() ways=()
    for ((nic = 1; nic <= count; nic++)); do
        listens+=("10.77.$nic.2:7000")
        ways+=("10.77.$nic.1:0=10.77.$nic.2:7000")
    done
    ip netns exec "$two" "$program" receive "${listens[@]}" "${options[@]}" &
    receiver=$!
    sleep 0.5
    ip netns exec "$one" timeout 300 "$program" send "${ways[@]}" "${options[@]}"
    wait "$receiver"
    receiver=""
done
