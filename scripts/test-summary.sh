#!/usr/bin/env bash
# Prints the ten slowest tests of a run of gotestsum, which sets the variables,
# then the counts.
set -euo pipefail
echo "slowest tests:"
go tool gotestsum tool slowest --jsonfile "$GOTESTSUM_JSONFILE" --num 10 --threshold 1ms | sed 's/^/  /'
echo "$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) passed, $TESTS_FAILED failed, $TESTS_SKIPPED skipped"
