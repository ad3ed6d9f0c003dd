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
    local subnet=$2 nics=$3 rate=${4:-} nic end space
    one="mgi-$1-$$-1" two="mgi-$1-$$-2" receiver=""
    trap remove_two_namespaces EXIT
    ip netns add "$one"
    ip netns add "$two"
    for ((nic = 1; nic <= nics; nic++)); do
        ip link add "nic$nic" netns "$one" type veth peer name "nic$nic" netns "$two"
        for end in 1 2; do
            space="$one"
            if [ "$end" = 2 ]; then space="$two"; fi
            ip -n "$space" address add "$subnet.$nic.$end/24" dev "nic$nic"
            ip -n "$space" link set "nic$nic" up
            if [ -n "$rate" ]; then
                tc -n "$space" qdisc add dev "nic$nic" root tbf rate "$rate" burst 256kb latency 50ms
            fi
        done
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
