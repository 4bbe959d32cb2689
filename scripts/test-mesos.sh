#!/usr/bin/env bash
# Runs the end-to-end suite against Apache Mesos, found on PATH or under
# MESOS_PREFIX. Without Mesos it prints that nothing was tested and exits with
# 0. As root on Debian it installs what the tests use, like test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
found() { command -v "$1" >/dev/null || [ -x "${MESOS_PREFIX:-/nonexistent}/sbin/$1" ]; }
for program in mesos-master mesos-agent; do
	if ! found "$program"; then
		echo "SKIPPED: no $program on PATH or under MESOS_PREFIX (${MESOS_PREFIX:-not set})"
		echo "0 passed, 0 failed, 1 skipped"
		exit 0
	fi
done
. scripts/test-machine.sh
prepare_machine
scripts/counted.sh -count=1 -tags mesos -p 1 -parallel 3 -run '^TestMesos|^TestEveryBehaviour' -timeout 30m ./internal/e2e ./internal/e2e/chaos ./internal/e2e/shares ./framework/checklist ./isolator/advertise ./isolator/mesosagent ./isolator/module ./executor/unified
