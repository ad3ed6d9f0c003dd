#!/usr/bin/env bash
# Links beside plain sockets between two network namespaces joined by veth pairs: one JSON line for each
# number of NICs. Needs root, iproute2 and a release build.
#
#   bench/wires.sh [--rate 1gbit] [--nics "1 2 4"] [--relay] [--ucx] [--encrypt] [--drive] [--perftest] [options of `bench_wires send`]
#
# --relay sends what goes over the link through a third namespace, and plain sockets straight; one NIC.
# --ucx moves the link's bytes by UCX; plain sockets stay what they are.
# --encrypt encrypts what goes over the link; with --kernel-tls in the kernel, where it has TLS.
# --drive: who waits drives the wires meanwhile, as kernels do; each end has a core of its own, as of mgi run.
# --perftest ends with what ucx_perftest (ucx-utils) needs for 64 bytes one way by NIC 1.
# --rate limits each NIC by a token bucket; without it the machine's memory is the limit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/two_namespaces.sh

program=build/release/bench_wires
rate="" counts="1 2 4" options=() relay="" perftest="" near=() far=()
while [ $# -gt 0 ]; do
    case "$1" in
        --rate) rate="$2"; shift 2 ;;
        --nics) counts="$2"; shift 2 ;;
        --relay) relay=1; shift ;;
        --drive) near=(taskset -c 0) far=(taskset -c 1); options+=("$1"); shift ;;
        --perftest) perftest=1; shift ;;
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        *) options+=("$1"); shift ;;
    esac
done
need_program "$program"
if [ -n "$perftest" ] && ! command -v ucx_perftest >/dev/null; then
    echo "no ucx_perftest; apt-get install ucx-utils" >&2
    exit 2
fi

remove_relay() {
    if [ -n "$passing" ]; then kill "$passing" 2>/dev/null || true; fi
    ip netns delete "$three" 2>/dev/null || true
    remove_two_namespaces
}

make_two_namespaces wires 10.77 "$(tr ' ' '\n' <<<"$counts" | sort -n | tail -n 1)" "$rate"

if [ -n "$relay" ]; then
    counts=1 three="mgi-wires-$$-3" passing=""
    trap remove_relay EXIT
    ip netns add "$three"
    join_namespaces relay1 "$one" 10.78.1.1 "$three" 10.78.1.3 "$rate"
    join_namespaces relay2 "$two" 10.78.2.1 "$three" 10.78.2.3 "$rate"
    relay=10.78.1.3:7000
    ip netns exec "$three" "$program" relay "$relay" 10.78.2.1:7000 &
    passing=$!
fi

for count in $counts; do
    listens=() ways=()
    for ((nic = 1; nic <= count; nic++)); do
        listens+=("10.77.$nic.2:7000")
        ways+=("10.77.$nic.1:0=10.77.$nic.2:7000")
    done
    if [ -n "$relay" ]; then
        listens+=("10.78.2.1:7000")
        ways=("0.0.0.0:0=10.77.1.2:7000")
    fi
    start_receiver "${far[@]}" "$program" receive "${listens[@]}" "${options[@]}"
    run_sender "${near[@]}" "$program" send "${ways[@]}" ${relay:+--relay "$relay"} "${options[@]}"
done

if [ -n "$perftest" ]; then
    command=(env UCX_NET_DEVICES=nic1 UCX_TLS=tcp UCX_LOG_LEVEL=fatal ucx_perftest -t tag_lat -s 64 -n 20000 -f)
    start_receiver "${far[@]}" "${command[@]}" >/dev/null
    said=$(mktemp)
    run_sender "${near[@]}" "${command[@]}" 10.77.1.2 >"$said"
    awk '$1 == 20000 { print "{\"ucx_perftest_one_way_us_median\": " $2 "}"; found = 1 }
        END { exit !found }' "$said" || { cat "$said" >&2; exit 1; }
    rm "$said"
fi
