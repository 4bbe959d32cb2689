#!/usr/bin/env bash
# package-test.sh: builds the packages for all architectures and tests them. It
# compares them with a second build in another folder, checks their contents, runs the binaries of other architectures under qemu-user,
# and installs, upgrades (with a running task), removes and purges the .deb: in a
# chroot without systemd, and in a container with systemd for each cgroup version.
# The .rpm is tested under systemd. If MESOS_PREFIX is set, the units also run with
# that Apache Mesos. This is not part of make test, because it compiles everything
# three times and downloads a Debian (60 MB), which it stores in
# bin/clean-root-rpm.tar.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "package-test: needs root, to create root file systems" >&2 && exit 1; }
scripts/package-tools.sh cross
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
export PACKAGE_CHECK_RELEASE=0
PACKAGE_OUT=$packages VERSION=v0.0.1 scripts/package.sh
PACKAGE_OUT=$packages/next VERSION=v0.0.2 scripts/package.sh "$(go env GOHOSTARCH)"
scripts/reproduce.sh "$(go env GOHOSTARCH)"
[ -z "${MESOS_PREFIX:-}" ] || make --no-print-directory module
root=bin/clean-root-rpm.tar
[ -s "$root" ] || {
	debootstrap --variant=minbase --include=systemd,rpm bookworm "$packages/root" http://deb.debian.org/debian >/dev/null
	tar -C "$packages/root" -cf "$root.new" . && mv "$root.new" "$root"
	rm -rf "$packages/root"
}
export MESOS_GPU_PACKAGES=$packages MESOS_GPU_CLEAN_ROOT=$PWD/$root MESOS_GPU_TEST_ALL=1
scripts/counted.sh -count=1 -tags packages -timeout 20m ./deploy
