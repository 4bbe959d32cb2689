#!/usr/bin/env bash
# counted.sh ARG...: runs go test with these arguments, prints a line of progress
# each minute, and the ten slowest tests and the counts at the end. counted.sh --all
# FLAG... tests every package (test-all-json.sh).
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
events=$(mktemp)
progress() {
	local minutes=0 passed
	while sleep 60; do
		passed=$(grep -c '"Action":"pass".*"Test":' "$events" || true)
		echo "test: $((++minutes)) min, $passed tests have passed" >&2
	done
}
set -m # a process group of its own, so that its sleep ends with it
progress &
reports=$!
set +m
trap 'kill -- -"$reports" 2>/dev/null || true; rm -f "$events"' EXIT
run=(-- "$@")
[ "${1:-}" != --all ] || run=(--raw-command -- "$scripts/test-all-json.sh" "${@:2}")
go tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile "$events" \
	--post-run-command "$scripts/test-summary.sh" "${run[@]}"
