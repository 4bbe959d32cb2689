#!/usr/bin/env bash
# build-progress.sh ARG… PACKAGE: runs go build with the arguments, and reports every
# 25 packages how many of all it has compiled. Packages in Go's build cache are not
# compiled: a later build usually reports nothing. It reads the lines itself: mawk,
# Debian's awk, waits for more input before it handles a line.
set -euo pipefail
go=${GO:-go}
all=$("$go" list -deps "${@: -1}" | wc -l)
# Lines of go build -v that name one package have no blank, colon or number sign; all
# others are messages of the compiler or about downloads.
"$go" build -v "$@" 2>&1 | {
	compiled=0
	while IFS= read -r line; do
		if ! [[ $line =~ ^[^\ :#]+$ ]]; then
			printf '%s\n' "$line"
		elif ((++compiled % 25 == 0)); then
			printf 'build: compiled %d of at most %d packages\n' "$compiled" "$all"
		fi
	done
} >&2
