#!/usr/bin/env bash
# package-tools.sh [cross]: installs the programs that the tests of deploy/ use on
# Debian: rpm (1.7 MB to download), systemd-analyze (in systemd, 3 MB) and promtool,
# which it extracts from the prometheus package (19 MB) without installing the
# daemon. With cross it also installs what builds the packages of other
# architectures and runs their binaries: two compilers and qemu-user (63 MB).
set -euo pipefail
packages=(rpm systemd man-db)
[ "${1:-}" != cross ] || packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross qemu-user-static debootstrap xz-utils)
missing=()
for p in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if ((${#missing[@]})); then
	apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
command -v promtool >/dev/null || {
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work" # apt downloads as its own user
	(cd "$work" && apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb .)
	install "$work/usr/bin/promtool" /usr/local/bin/promtool
}
