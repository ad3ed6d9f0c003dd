#!/usr/bin/env bash
# How soon an owner has its NIC back from who borrows it, between two network namespaces joined by two
# pairs of veth: one JSON line with both devices in one process, and one with each in its own. Needs
# root, iproute2 and a release build.
#
#   bench/lend.sh [--rate 2gbit] [options of `bench_lend send`]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/two_namespaces.sh

program="${BENCH_LEND:-build/release/bench_lend}"
rate="2gbit" options=()
while [ $# -gt 0 ]; do
    case "$1" in
        --rate) rate="$2"; shift 2 ;;
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        *) options+=("$1"); shift ;;
    esac
done
need_program "$program"
make_two_namespaces lend 10.78 2 "$rate"

for processes in "" --processes; do
    start_receiver "$program" receive 10.78.1.2:7000 10.78.2.2:7000 "${options[@]}"
    run_sender "$program" send 10.78.1.1:0=10.78.1.2:7000 10.78.2.1:0=10.78.2.2:7000 $processes \
        "${options[@]}"
done
