# Two network namespaces, $one and $two, joined by veth pairs, for benches between two servers. To be
# sourced with `set -euo pipefail`; both are gone when the script ends. Needs root and iproute2.
# shellcheck shell=bash

# need_program <program>
need_program() {
    if [ ! -x "$1" ]; then
        echo "no $1; cmake --preset release && cmake --build --preset release --target $(basename "$1")" >&2
        exit 2
    fi
}

# make_two_namespaces <name> <subnet> <nics> [<rate>]: NIC n has the addresses <subnet>.n.1 and
# <subnet>.n.2; <rate> limits each by a token bucket.
make_two_namespaces() {
    local subnet=$2 nics=$3 rate=${4:-} nic
    one="mgi-$1-$$-1" two="mgi-$1-$$-2" receiver=""
    trap remove_two_namespaces EXIT
    ip netns add "$one"
    ip netns add "$two"
    for ((nic = 1; nic <= nics; nic++)); do
        join_namespaces "nic$nic" "$one" "$subnet.$nic.1" "$two" "$subnet.$nic.2" "$rate"
    done
}

# join_namespaces <nic> <namespace> <address> <namespace> <address> [<rate>]: the NIC has this name in both.
join_namespaces() {
    local nic=$1 rate=${6:-} space
    ip link add "$nic" netns "$2" type veth peer name "$nic" netns "$4"
    ip -n "$2" address add "$3/24" dev "$nic"
    ip -n "$4" address add "$5/24" dev "$nic"
    for space in "$2" "$4"; do
        ip -n "$space" link set "$nic" up
        if [ -n "$rate" ]; then
            tc -n "$space" qdisc add dev "$nic" root tbf rate "$rate" burst 256kb latency 50ms
        fi
    done
}

remove_two_namespaces() {
    if [ -n "$receiver" ]; then kill "$receiver" 2>/dev/null || true; fi
    ip netns delete "$one" 2>/dev/null || true
    ip netns delete "$two" 2>/dev/null || true
}

# start_receiver <command...>: in $two, and gives it time to listen.
start_receiver() {
    ip netns exec "$two" "$@" &
    receiver=$!
    sleep 0.5
}

# run_sender <command...>: in $one; then the receiver ends.
run_sender() {
    ip netns exec "$one" timeout 300 "$@"
    wait "$receiver"
    receiver=""
}
