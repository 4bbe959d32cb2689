#!/usr/bin/env bash
# mutate.sh [-n N] [-seed S] [-file NAME] PACKAGE...: how many of N faults (default 40)
# the own tests of each package detect, and the faults that they do not detect. See
# scripts/mutate. N = 0 tries all. -file tries the faults of files with NAME in their names.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-go.sh
ulimit -v 8388608 # KiB: a fault may allocate without end
exec nice go run ./scripts/mutate "$@"
