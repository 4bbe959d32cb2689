#!/usr/bin/env bash
# reproduce.sh [ARCH]: builds the packages for ARCH (default: this machine's) twice, from
# copies of the tracked files in two folders of different depth, with a build cache of its
# own each, and fails if any file differs. REPRODUCE_CACHE=shared uses the build cache of
# the user: that compares only what is linked and packed.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-$(go env GOHOSTARCH)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} VERSION=${VERSION:-$(git describe --tags --always)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in a "b/a folder of another length"; do
	dir=$work/$copy
	mkdir -p "$dir"
	git ls-files -z | tar --null -T - -c | tar -x -C "$dir"
	git -C "$dir" init -q # package.sh lists the tracked files
	git -C "$dir" add -A
	[ "${REPRODUCE_CACHE:-}" = shared ] || export GOCACHE=$work/cache-${copy%%/*}
	PACKAGE_OUT=$work/out-${copy%%/*} "$dir/scripts/package.sh" "$arch" >"$work/log" || { cat "$work/log" >&2 && exit 1; }
	[ "${REPRODUCE_CACHE:-}" = shared ] || rm -rf "$GOCACHE"
done
cd "$work"
differences=0
for file in out-a/*; do
	cmp "$file" "out-b/${file#out-a/}" || differences=1
done
[ "$(ls out-a)" = "$(ls out-b)" ] || { diff <(ls out-a) <(ls out-b) >&2 || differences=1; }
((differences == 0)) || { echo "reproduce: the two builds differ" >&2 && exit 1; }
echo "reproduce: $(ls out-a | wc -l) files are the same in both builds:"
cat out-a/SHA256SUMS
