#!/usr/bin/env bash
# Proves that a new user's machine is enough: makes a bare Debian with debootstrap, clones the
# committed state into it, and runs the commands there that the README tells a new user to type.
#
#   tools/bare_machine.sh [FOLDER]          FOLDER: about 8 GiB, default /var/tmp/mgi-bare
#
# Needs root and debootstrap. Environment: SUITE (bookworm), MIRROR, STEPS (arguments of test.sh;
# "none" leaves it out). pip's and the proxies' variables are passed in; a certificate bundle that
# PIP_CERT names is copied.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:-/var/tmp/mgi-bare}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
base=$folder/$suite
machine=$folder/machine

[ "$(id -u)" -eq 0 ] || { echo "bare_machine: root is needed, for chroot and mount" >&2; exit 1; }
command -v debootstrap >/dev/null ||
    { echo "bare_machine: apt-get install debootstrap" >&2; exit 1; }

unmount() {
    if mountpoint -q "$machine"; then umount -l -R "$machine"; fi
}
trap unmount EXIT

mkdir -p "$folder"
if [ ! -e "$base/.complete" ]; then
    echo "bare_machine: debootstrap $suite into $base"
    rm -rf "$base"
    debootstrap --variant=minbase "$suite" "$base" "$mirror" >"$folder/debootstrap.log"
    touch "$base/.complete"
fi
unmount
rm -rf --one-file-system "$machine"
cp -a --reflink=auto "$base" "$machine"
cp -L /etc/resolv.conf "$machine/etc/resolv.conf"
# An installer writes it; debootstrap does not.
printf '127.0.0.1 localhost\n::1 localhost\n' >"$machine/etc/hosts"
git clone -q --no-hardlinks . "$machine/home/mgi"
# The clone belongs to a user without rights: the first trial is theirs.
chown -R 65534:65534 "$machine/home/mgi"
if [ -n "${PIP_CERT:-}" ]; then
    mkdir -p "$machine$(dirname "$PIP_CERT")"
    cp "$PIP_CERT" "$machine$PIP_CERT.bare"
fi
# A machine's root is a place where something is mounted, which network namespaces need.
mount --bind "$machine" "$machine"
mount --make-private "$machine"
mount -t proc proc "$machine/proc"
mount --rbind /sys "$machine/sys"
mount --make-rslave "$machine/sys"
mount --bind /dev "$machine/dev"
mount --make-private "$machine/dev"
mount -t devpts devpts "$machine/dev/pts" 2>/dev/null || true

# inside <user> <command>: as a new user types it, with a new user's environment.
inside() {
    local user=$1 variables=() name
    shift
    for name in PIP_INDEX_URL PIP_DEFAULT_TIMEOUT http_proxy https_proxy no_proxy; do
        if [ -n "${!name:-}" ]; then variables+=("$name=${!name}"); fi
    done
    if [ -n "${PIP_CERT:-}" ]; then variables+=("PIP_CERT=$PIP_CERT.bare"); fi
    chroot --userspec="$user" "$machine" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${variables[@]}" \
        /bin/bash -c "cd /home/mgi && $*" </dev/null
}

times=()
failures=0
# timed <user> <command>: counts a failure and goes on.
timed() {
    local started=$SECONDS status=0
    printf '\n#### %s\n' "$2"
    inside "$@" || status=$?
    times+=("$(printf '%5d s  status %d  %s' "$((SECONDS - started))" "$status" "$2")")
    [ "$status" -eq 0 ] || failures=$((failures + 1))
}

printf '\n#### without root and without sudo: it must stop and say what to type\n'
if inside 65534:65534 "HOME=/tmp ./demo.sh" >"$folder/no-root.log" 2>&1 ||
    ! grep -q 'apt-get update && apt-get install -y' "$folder/no-root.log"; then
    failures=$((failures + 1))
    times+=("   FAILED: without root it did not stop with the command to type")
fi
cat "$folder/no-root.log"

timed 0:0 "SF=0.1 ./demo.sh"
timed 0:0 "SF=0.1 ./demo.sh"
if [ "${STEPS:-}" != none ]; then
    timed 0:0 "./test.sh ${STEPS:-}"
fi

printf '\n#### times on the bare machine\n'
printf '%s\n' "${times[@]}"
exit "$((failures > 0))"
