#!/usr/bin/env bash
# build-progress.sh ARG… PACKAGE: runs go build with the arguments, and reports every
# 25 packages how many of all it has compiled. Packages in Go's build cache are not
# compiled: a later build usually reports nothing.
set -euo pipefail
go=${GO:-go}
all=$("$go" list -deps "${@: -1}" | wc -l)
# Lines of go build -v that name one package have no blank, colon or number sign; all
# others are messages of the compiler or about downloads.
"$go" build -v "$@" 2>&1 | awk -v all="$all" '
	/^[^ :#]+$/ { if (++n % 25 == 0) { printf "build: compiled %d of at most %d packages\n", n, all; fflush() } next }
	{ print; fflush() }' >&2
