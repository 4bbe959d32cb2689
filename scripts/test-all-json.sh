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

# A package may take 20 minutes of a machine that does nothing else, and longer on a
# loaded one: a test that has not ended by then is broken, and not slow. The time of
# a fixed computation beside its processor time shows the load.
TIMEFORMAT='%R %U'
read -r elapsed computed < <({ time head -c 256M /dev/zero | sha256sum >/dev/null; } 2>&1)
slowness=$(awk -v e="$elapsed" -v c="$computed" 'BEGIN { s = int(e / (c > 0.01 ? c : 0.01) + 0.5); print s < 1 ? 1 : s > 9 ? 9 : s }')
((slowness == 1)) || echo "test: other programs use this machine, tests may take $slowness times as long: a package has $((20 * slowness)) minutes" >&2
flags=(-json -vet=off -ldflags='-s -w' -timeout "$((20 * slowness))m" -artifacts -outputdir "$PWD/bin/test-output" "$@")

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
