#!/usr/bin/env bash
# Fails with the remedy if go is missing or older than go.mod requires. A Go
# from 1.21 on downloads the required version itself unless GOTOOLCHAIN forbids
# it.
set -euo pipefail
cd "$(dirname "$0")/.."
need=$(awk '$1 == "go" { print $2; exit }' go.mod)
remedy="needs Go $need or newer: download it from https://go.dev/dl/, unpack it into /usr/local and put /usr/local/go/bin first on PATH"
command -v go >/dev/null || { echo "no go on PATH; mesos-gpu $remedy" >&2; exit 1; }
have=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
have=${have#go}
[ "$(printf '%s\n' "$need" "${have%% *}" | sort -V | head -1)" = "$need" ] && exit 0
if go version >/dev/null 2>&1; then
	echo "Go $have is on PATH and Go $need is needed: go downloads it once, as $(go env GOVERSION)"
	exit 0
fi
echo "Go $have is on PATH; mesos-gpu $remedy" >&2
exit 1
