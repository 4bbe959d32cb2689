#!/usr/bin/env bash
# Tests the limiter on this machine's GPU with real CUDA, and writes the
# measurements to docs/internals/sharing-results.md. GPU_TEST_RESULTS names another
# file, and GPU_TEST_SECONDS sets the duration of each measurement. It needs only
# NVIDIA's driver. On a machine without compilers, copy bin/gpu-test from a machine
# on which `scripts/test-gpu.sh build` has run, and set GPU_TEST_PROGRAMS to its
# path. Without a GPU it reports that nothing was run, and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$PWD/bin/gpu-test

have() { command -v "$1" >/dev/null; }

build() {
	make --no-print-directory -s -C isolator/limiter gpu OUT="$programs"
	CGO_ENABLED=0 "${GO:-go}" test -c -trimpath -ldflags '-s -w' -tags gpu -o "$programs/limiter.test" ./isolator/limiter
}

if [ -n "${GPU_TEST_PROGRAMS:-}" ]; then
	programs=$GPU_TEST_PROGRAMS
elif have "${GO:-go}" && have make && have "${CC:-gcc}"; then
	build
elif [ -e /dev/nvidiactl ]; then
	echo "this machine lacks Go, make or gcc: run '$0 build' on one that has them, copy bin/gpu-test, and set GPU_TEST_PROGRAMS" >&2
	exit 1
else
	echo "no NVIDIA GPU here: nothing was run"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
[ "${1:-}" != build ] || exit 0

export GPU_TEST_PROGRAMS=$programs GPU_TEST_RESULTS=${GPU_TEST_RESULTS:-$PWD/docs/internals/sharing-results.md}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
status=0
"$programs/limiter.test" -test.run '^TestGPU$' -test.v -test.timeout 20m 2>&1 | tee "$output" || status=$?
count() { grep -c "^ *--- $1: " "$output" || true; }
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit "$status"
