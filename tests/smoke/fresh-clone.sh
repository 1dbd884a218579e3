#!/bin/sh
# Clones HEAD into a temporary folder and does there what a newcomer does: make demo, or the targets given.
#
#   tests/smoke/fresh-clone.sh             make demo
#   tests/smoke/fresh-clone.sh test        make test
#   BARE=1 tests/smoke/fresh-clone.sh      the same inside a bare Debian 12 (needs root, debootstrap and the network)
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/sparta-clone.XXXXXX")
cleanup() {
    [ -z "${BARE:-}" ] || umount "$work/root/proc" "$work/root/dev" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ -n "${BARE:-}" ]; then
    debootstrap --variant=minbase --include=git,make,gcc,ca-certificates bookworm "$work/root" "${MIRROR:-http://deb.debian.org/debian}" > "$work/debootstrap.log"
    git clone -q . "$work/root/sparta"
    cp /etc/resolv.conf "$work/root/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/" # a network with certificates of its own
    mount --bind /dev "$work/root/dev"
    mount -t proc proc "$work/root/proc"
    chroot "$work/root" sh -c "cd /sparta && HOME=/root PIP_CERT=/etc/ssl/certs/ca-certificates.crt PATH=/usr/sbin:/usr/bin:/sbin:/bin make ${*:-demo}"
else
    git clone -q . "$work/sparta"
    cd "$work/sparta"
    HOME=$work make "${@:-demo}"
fi
