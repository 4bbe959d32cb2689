#!/usr/bin/env bash
# govulncheck over everything. It asks vuln.go.dev; where that cannot be
# reached, GOVULNDB names a copy (file:///…), and GOVULNCHECK a program that is
# installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
exec ${GOVULNCHECK:-go run golang.org/x/vuln/cmd/govulncheck@v1.9.0} ${GOVULNDB:+-db "$GOVULNDB"} ./...
