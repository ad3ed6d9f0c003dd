#!/usr/bin/env bash
# Links beside plain sockets between two network namespaces joined by veth pairs: one JSON line for each
# number of NICs. Needs root, iproute2 and a release build.
#
#   bench/wires.sh [--rate 1gbit] [--nics "1 2 4"] [options of `bench_wires send`]
#
# --rate limits each NIC by a token bucket; without it the machine's memory is the limit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/two_namespaces.sh

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
need_program "$program"
make_two_namespaces wires 10.77 "$(tr ' ' '\n' <<<"$counts" | sort -n | tail -n 1)" "$rate"

for count in $counts; do
    listens=() ways=()
    for ((nic = 1; nic <= count; nic++)); do
        listens+=("10.77.$nic.2:7000")
        ways+=("10.77.$nic.1:0=10.77.$nic.2:7000")
    done
    start_receiver "$program" receive "${listens[@]}" "${options[@]}"
    run_sender "$program" send "${ways[@]}" "${options[@]}"
done
