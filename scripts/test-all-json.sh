#!/usr/bin/env bash
# test-all-json.sh FLAG...: runs go test -json for every package, with the race
# detector for packages in which something runs concurrently. Many packages mostly
# wait, so more than one for each processor run at a time: two with the race
# detector, and one without it. vet is off because make lint runs it. Binaries
# without debug information link in half the time. The race detector does not watch
# compress/...: it would slow down compression tenfold, and compression has no state
# that goroutines share. Nor does it watch the ZooKeeper client, which reads a number
# without a lock when it reconnects (go-zookeeper/zk pull request 35, open since 2020).
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$(scripts/test-packages.sh)
mapfile -t race < <(sed -n 's/^race //p' <<<"$packages")
mapfile -t plain < <(sed -n 's/^plain //p' <<<"$packages")
((${#race[@]} && ${#plain[@]})) # empty if it failed
events=$(mktemp)
# test.sh sets TEST_TIMEOUT, how long a package may take.
flags=(-json -vet=off -ldflags='-s -w' -timeout "${TEST_TIMEOUT:-20m}" -artifacts -outputdir "$PWD/bin/test-output" "$@")

# The race detector otherwise waits a second at the exit of each process.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"
# The collector otherwise takes a tenth of the processor time, with small heaps.
export GOGC=300
go test "${flags[@]}" -p "$(nproc)" "${plain[@]}" >"$events" &
background=$!
trap 'kill "$background" 2>/dev/null || true; rm -f "$events"' EXIT
result=0
go test "${flags[@]}" -race -gcflags=compress/...=-race=false -gcflags=github.com/go-zookeeper/zk=-race=false -p $((2 * $(nproc))) "${race[@]}" || result=$?
wait "$background" || result=$?
cat "$events"
exit "$result"
