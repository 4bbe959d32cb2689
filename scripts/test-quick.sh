#!/usr/bin/env bash
# test-quick.sh [GO TEST FLAG...]: runs the tests that need neither root, Docker nor
# other programs, without the race detector, for frequent use during development.
# Results of unchanged packages come from Go's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-go.sh
export GOFLAGS="-trimpath $(go env GOFLAGS)"
# Property tests draw the same cases in each run; make test-long draws others.
export RAPID_SEED=${RAPID_SEED:-1}
mapfile -t packages < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(internal/e2e|framework/crash)(/|$)')
scripts/counted.sh -short -vet=off -p $((2 * $(nproc))) "$@" "${packages[@]}"
