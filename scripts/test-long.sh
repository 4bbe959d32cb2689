#!/usr/bin/env bash
# Runs the tests that take too long for make test: each fuzz target for 10 s, the
# crash tests with hundreds of killed schedulers, journal files with thousands of
# damages, simulated clusters from 100,000 seeds, hostile clients of a scheduler
# with 100,000 tasks, failovers of counters from 1,000 seeds, thousands of mutated
# answers, the CPU time and memory of schedulers beside their ranges, mesos-gpu run
# beside docker run, 100 kills each of mesos-gpu local and of executors, shares of
# roles and users on 12 agents with 8 GPUs, cases of other schedulers with each policy of
# reclaim, 100,000 cases of each property of reclaim,
# NVIDIA's real drivers, and the property tests with 20 times the usual
# number of cases.
# make test runs them with fewer cases, except the hostile clients and the ranges, and
# runs the fuzz targets on their stored inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-go.sh
export GOFLAGS="-trimpath $(go env GOFLAGS)"

scripts/fuzz.sh 10s

MESOS_GPU_TEST_LONG=1 scripts/counted.sh -race -gcflags=github.com/go-zookeeper/zk=-race=false -vet=off -timeout 30m -run '^TestKilled|^TestClockJumps' ./framework/crash
scripts/counted.sh -race -gcflags=github.com/go-zookeeper/zk=-race=false -vet=off -timeout 30m ./framework/journal
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -vet=off -timeout 30m -run '^TestDamaged|^TestFullDisk' ./framework/journal
scripts/counted.sh -vet=off -timeout 60m -run '^TestSeeds$' ./internal/testing/clustersim -v -clustersim.seeds=100000
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -vet=off -timeout 30m -run '^(TestHostileClientsAreBounded|TestMemoryOfManyJobs|TestGPUTimeIsIndependentOfFailover)$' ./framework ./framework/metrics
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -p 1 -vet=off -timeout 30m -run '^TestSpeedOf' ./framework/sched ./framework/sim/replay ./internal/e2e
go test -vet=off -timeout 30m -run '^$' -bench '^BenchmarkRunInARow$' -benchtime 2x ./internal/e2e/starts
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -vet=off -timeout 30m -run '^(TestTasksSurviveKills|TestGPUsAreHeldOnceWhileExecutorsAreKilled|TestKillStorm|TestKillStormWithoutAgentState)$' ./internal/e2e
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -vet=off -parallel 2 -timeout 40m ./internal/e2e/shares
scripts/counted.sh -vet=off -timeout 120m -run '^(TestReclaim.*Settles.*|TestReclaimKeepsGangsWhole)$' ./framework/sched/placement -rapid.checks=100000
MESOS_GPU_TEST_LONG=1 scripts/counted.sh -vet=off -timeout 30m -run '^TestClientSurvivesMutatedResponses$' ./isolator/module
make --no-print-directory test-driver

mapfile -t files < <(grep -rl --include='*_test.go' 'rapid\.Check(' .)
tests=$(awk '/^func Test/ { name = $2; sub(/\(.*/, "", name) } /rapid\.Check\(/ { print name }' "${files[@]}" | sort -u | paste -sd '|')
mapfile -t packages < <(dirname "${files[@]}" | sort -u)
scripts/counted.sh -vet=off -timeout 30m -run "^($tests)\$" "${packages[@]}" -rapid.checks=2000
