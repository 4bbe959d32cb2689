#!/usr/bin/env bash
# test.sh [GO TEST FLAG...]: runs linters and every test, then prints the ten
# slowest tests, the counts, and what the linters found. Packages in which
# something runs concurrently are tested with the race detector. As root on Debian
# it installs the programs that the tests use, and starts a Docker engine for the
# run if none responds. In that case a missing program fails its tests instead of
# skipping them. Tests write their output for inspection to bin/test-output.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/test-machine.sh
scripts/check-go.sh
prepare_machine

# as make build, so that packages are compiled once for both, and results of vet and
# staticcheck in Go's cache hold in each folder
export GOFLAGS="-trimpath $(go env GOFLAGS)"
# The linters run at the same time as the tests: without stored results, staticcheck
# leaves one of two processors idle for a minute or more.
lint=$(mktemp)
make --no-print-directory lint >"$lint" 2>&1 &
linters=$!
trap 'kill "$linters" 2>/dev/null || true; rm -f "$lint"; stop_engine' EXIT
# Property tests draw the same cases in each run; make test-long draws others.
export RAPID_SEED=${RAPID_SEED:-1}
# A package may take 20 minutes of a machine that does nothing else, and longer on a
# loaded one: a test that has not ended by then is broken, and not slow. The time of
# a fixed computation beside its processor time shows the load.
TIMEFORMAT='%R %U'
read -r elapsed computed < <({ time head -c 256M /dev/zero | sha256sum >/dev/null; } 2>&1)
slowness=$(awk -v e="$elapsed" -v c="$computed" 'BEGIN { s = int(e / (c + 0.01) + 0.5); if (s < 1) s = 1; if (s > 9) s = 9; print s }')
export TEST_TIMEOUT=$((20 * slowness))m
((slowness == 1)) || echo "test: other programs use this machine, tests may take $slowness times as long: a package has $TEST_TIMEOUT"
rm -rf bin/test-output
mkdir -p bin/test-output
result=0
scripts/counted.sh --all "$@" || result=$?
if ! wait "$linters"; then
	cat "$lint"
	echo "make lint failed: see above" >&2
	exit 1
fi
grep '^SKIPPED' "$lint" || true
exit "$result"
