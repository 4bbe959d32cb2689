#!/usr/bin/env bash
# test-quick.sh [GO TEST FLAG...]: the tests that need no root, no engine and no
# program, without the race detector: for the inner loop. Results of unchanged
# packages come from Go's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-go.sh
export GOFLAGS="-trimpath $(go env GOFLAGS)"
mapfile -t packages < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(internal/e2e|framework/crash)(/|$)')
scripts/counted.sh -short -vet=off -p $((2 * $(nproc))) "$@" "${packages[@]}"
