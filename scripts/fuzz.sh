#!/usr/bin/env bash
# fuzz.sh [TIME]: runs each native fuzz target for the given time (default 30s), one
# after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz DIR TARGET. If an input is being tried when the time is over, go test may
# report that as the failure "context deadline exceeded", without an input. That
# is not a finding. A finding names the file of its input.
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" 2>&1 | tee "$output" && return 0
	grep -q '^ *context deadline exceeded$' "$output" && ! grep -qE 'Failing input|panic:|DATA RACE' "$output"
}

grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . >/dev/null || { echo "no fuzz targets"; exit 1; }
grep -rlE --include='*_test.go' '^func Fuzz' . | while read -r file; do
	for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | awk '{print $2}'); do
		echo "== $target in $(dirname "$file")"
		fuzz "$(dirname "$file")" "$target"
	done
done
