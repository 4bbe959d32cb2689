#!/usr/bin/env bash
# test-all-json.sh FLAG...: runs go test -json for every package, with the race
# detector for packages in which something runs concurrently. Many of these mostly
# wait, so twice as many packages as processors run at a time; the packages without
# the race detector run at the same time, one by one. vet is off because make lint
# runs it. Binaries without debug information link in half the time. The race
# detector does not watch compress/...: it would slow down compression tenfold, and
# compression has no state that goroutines share.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t race < <(scripts/test-packages.sh race)
mapfile -t plain < <(scripts/test-packages.sh plain)
((${#race[@]} && ${#plain[@]})) # empty if test-packages.sh failed
events=$(mktemp)
flags=(-json -vet=off -ldflags='-s -w' -timeout 20m -artifacts -outputdir "$PWD/bin/test-output" "$@")

# The race detector otherwise waits a second at the exit of each process.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"
go test "${flags[@]}" -p 1 "${plain[@]}" >"$events" &
background=$!
trap 'kill "$background" 2>/dev/null || true; rm -f "$events"' EXIT
result=0
go test "${flags[@]}" -race -gcflags=compress/...=-race=false -p $((2 * $(nproc))) "${race[@]}" || result=$?
wait "$background" || result=$?
cat "$events"
exit "$result"
