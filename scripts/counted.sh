#!/usr/bin/env bash
# counted.sh ARG...: runs go test with these arguments and prints the ten slowest
# tests and the counts at the end. counted.sh --all FLAG... tests every package
# (test-all-json.sh).
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
events=$(mktemp)
trap 'rm -f "$events"' EXIT
run=(-- "$@")
[ "${1:-}" != --all ] || run=(--raw-command -- "$scripts/test-all-json.sh" "${@:2}")
go tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile "$events" \
	--post-run-command "$scripts/test-summary.sh" "${run[@]}"
