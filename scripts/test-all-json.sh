#!/usr/bin/env bash
# test-all-json.sh FLAG...: go test -json of every package; the concurrent ones
# with the race detector. Many of these wait more than they compute, so twice as
# many packages as there are processors run at a time, and the others fill the
# gaps. The linters have run vet.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t race < <(scripts/test-packages.sh race)
mapfile -t plain < <(scripts/test-packages.sh plain)
((${#race[@]} && ${#plain[@]})) # test-packages.sh has failed
events=$(mktemp)
flags=(-json -vet=off -timeout 20m -artifacts -outputdir "$PWD/bin/test-output" "$@")

go test "${flags[@]}" -p 1 "${plain[@]}" >"$events" &
background=$!
trap 'kill "$background" 2>/dev/null || true; rm -f "$events"' EXIT
result=0
go test "${flags[@]}" -race -p $((2 * $(nproc))) "${race[@]}" || result=$?
wait "$background" || result=$?
cat "$events"
exit "$result"
