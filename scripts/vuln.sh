#!/usr/bin/env bash
# Runs govulncheck on all packages. It uses vuln.go.dev, or the copy that
# GOVULNDB names (file:///…). GOVULNCHECK names an installed program to use.
set -euo pipefail
cd "$(dirname "$0")/.."
exec ${GOVULNCHECK:-go run golang.org/x/vuln/cmd/govulncheck@v1.9.0} ${GOVULNDB:+-db "$GOVULNDB"} ./...
