#!/usr/bin/env bash
# test.sh [GO TEST FLAG...]: runs linters and every test, then prints the ten
# slowest tests and the counts. Packages in which something runs concurrently
# are tested with the race detector. As root on Debian it installs the programs
# that the tests use, and starts a Docker engine for the run if none responds.
# In that case a missing program fails its tests instead of skipping them. Tests
# write their output for inspection to bin/test-output.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/test-machine.sh
scripts/check-go.sh
prepare_machine

make --no-print-directory lint
# The tests use the compiled packages of make build. staticcheck must not: with
# -trimpath it finds cgo's files of another checkout in Go's cache.
export GOFLAGS="-trimpath $(go env GOFLAGS)"
rm -rf bin/test-output
mkdir -p bin/test-output
scripts/counted.sh --all "$@"
