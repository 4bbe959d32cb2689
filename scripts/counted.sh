#!/usr/bin/env bash
# Runs go test with these arguments and prints the counts at the end.
set -euo pipefail
exec go tool gotestsum --format pkgname --format-hide-empty-pkg \
	--post-run-command 'bash -c "echo \"$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) passed, $TESTS_FAILED failed, $TESTS_SKIPPED skipped\""' \
	-- "$@"
