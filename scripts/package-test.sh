#!/usr/bin/env bash
# package-test.sh: builds the packages of all architectures, then reads them
# back, runs the foreign binaries under qemu-user, and installs, upgrades with a
# task running, removes and purges in a clean root: once without systemd, and under
# one of its own, with the units, for each version of control groups; the .rpm by
# rpm, under systemd. Apart from make test since it compiles everything three times
# and fetches a Debian (60 MB); the root is kept in bin/clean-root-rpm.tar. With
# MESOS_PREFIX the units run beside that Apache Mesos, too.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "package-test: needs root, for a root of its own" >&2 && exit 1; }
scripts/package-tools.sh cross
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
PACKAGE_OUT=$packages VERSION=v0.0.1 scripts/package.sh
PACKAGE_OUT=$packages/next VERSION=v0.0.2 scripts/package.sh "$(go env GOHOSTARCH)"
[ -z "${MESOS_PREFIX:-}" ] || make --no-print-directory module
root=bin/clean-root-rpm.tar
[ -s "$root" ] || {
	debootstrap --variant=minbase --include=systemd,rpm bookworm "$packages/root" http://deb.debian.org/debian >/dev/null
	tar -C "$packages/root" -cf "$root.new" . && mv "$root.new" "$root"
	rm -rf "$packages/root"
}
export MESOS_GPU_PACKAGES=$packages MESOS_GPU_CLEAN_ROOT=$PWD/$root MESOS_GPU_TEST_ALL=1
scripts/counted.sh -count=1 -tags packages -timeout 20m ./deploy
