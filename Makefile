SHELL := /bin/bash
.DEFAULT_GOAL := help
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO ?= go

.PHONY: help build module limiter package package-test demo test test-quick test-long test-mesos test-marathon test-chaos test-driver test-gpu bench bench-compare bench-start sim scale lint vuln fuzz mutate clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/mesos-gpu
	GO=$(GO) scripts/build-progress.sh -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/mesos-gpu ./cmd/mesos-gpu

module: ## build bin/libmesosgpumodule.so, the agents' module, for the Mesos under MESOS_PREFIX
	$(MAKE) --no-print-directory -j2 -C isolator/module module OUT=$(CURDIR)/bin

limiter: ## build bin/limiter/libmesosgpu.so, which holds containers to their parts of GPUs
	$(MAKE) --no-print-directory -j2 -C isolator/limiter limiter OUT=$(CURDIR)/bin/limiter

ARCH ?=
package: ## .deb, .rpm, .tar.gz, SPDX and images for amd64, arm64 and ppc64le, or only for ARCH, in bin/packages
	VERSION=$(VERSION) scripts/package.sh $(ARCH)

package-test: ## build all packages; run the foreign ones; install, upgrade, remove and purge in a clean root and under a systemd
	scripts/package-test.sh

demo: build ## run one GPU job on a cluster in one process, and leave nothing behind
	bin/mesos-gpu local --free-ports --run examples/hello-gpu.yaml

test: build ## the whole suite; as root on Debian it installs what it needs
	scripts/test.sh

test-quick: ## the tests that need no root, no engine and no program, without the race detector
	scripts/test-quick.sh

test-long: ## what takes too long for every run: fuzzing, hundreds of crashes, speed of scheduling beside its range, and property tests with 20 times the cases
	scripts/test-long.sh

test-mesos: build ## end to end on Apache Mesos, found on PATH or under MESOS_PREFIX
	scripts/test-mesos.sh

CLIENTS ?=
test-marathon: ## existing clients of Marathon on a cluster of this machine; CLIENTS=DIR has the sources of marathon-python, marathon-lb and marathon-consul
	MESOS_GPU_MARATHON_CLIENTS=$(if $(CLIENTS),$(abspath $(CLIENTS))) scripts/counted.sh -count=1 -p 1 -tags marathonclients -run '^(TestMarathonClient|TestGoMarathonClient)' -timeout 30m ./internal/e2e ./internal/e2e/marathon

CHAOS ?= 15m
SEED ?= 0
LEADER ?= -1
FAULTS ?= all
MODULE ?= false
TLS ?= false
test-chaos: build ## faults of networks and processes on Apache Mesos for CHAOS (15m), and a checker of what the tasks recorded; SEED=N repeats the faults of a run, LEADER=0 to 2 chooses the first leading master, FAULTS=basic omits those of single agents, MODULE=true loads the module, TLS=true encrypts the connections of Mesos
	$(GO) test -count 1 -v -tags mesos -run '^TestChaos$$' -timeout 3h ./internal/e2e/chaos -chaos.duration=$(CHAOS) -chaos.seed=$(SEED) -chaos.leader=$(LEADER) -chaos.faults=$(FAULTS) -chaos.module=$(MODULE) -chaos.tls=$(TLS)

test-driver: ## volumes, the limiter, NVML and MPS with NVIDIA's real drivers, which apt downloads from Debian into the user's cache; the results go to docs/internals/driver-results.md
	MESOS_GPU_TEST_DRIVER=1 scripts/counted.sh -count=1 -p 1 -vet=off -timeout 30m -run 'RealDriver' ./volumemgr ./isolator/limiter ./isolator/nvml ./isolator/mps

test-gpu: ## the limiter on this machine's GPU; what it measures goes to docs/internals/sharing-results.md
	scripts/test-gpu.sh

BENCH ?= .
bench: bench-start ## benchmarks: decisions, plans, journal, restart, services, confining containers, metrics, volumes, and bench-start
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./framework/... ./isolator/... ./marathon/... ./volumemgr/... ./internal/e2e ./internal/e2e/marathon

COMMIT ?=
PACKAGES ?= ./framework/sched/...
bench-compare: ## benchmarks of PACKAGES beside those of an earlier COMMIT, run alternately, with the differences; BENCH=PATTERN chooses some
	scripts/bench-compare.sh '$(COMMIT)' -bench '$(BENCH)' $(PACKAGES)

bench-start: ## how long a task takes to start, beside docker run, runc run and Mesos's own executors
	$(GO) test -tags mesos -run '^$$' -v -bench '$(BENCH)' -benchtime 1x -timeout 20m ./internal/e2e/starts

TABLES ?= docs/internals/placement
sim: ## play the FGD experiment in full, compare it with the published results, write the table and plots into docs/internals/placement; TRACES=DIR has the openb_*.csv
	@test -n "$(TRACES)" || { echo "make sim TRACES=DIR: the folder with openb_node_list_gpu_node.csv and openb_pod_list_*.csv of cluster-trace-gpu-v2023"; exit 1; }
	$(GO) test -count 1 -v -timeout 60m -run '^(TestPublishedAllocation|TestHeadroomOnDerivedTraces|TestOnlineOptimum)$$' ./framework/sim -traces $(abspath $(firstword $(wildcard $(TRACES)/openb) $(TRACES))) -seeds 10 -variants 8 -family 100 -tables $(abspath $(TABLES))

scale: ## replay a million tasks on 1,000 to 100,000 agents, for docs/internals/evidence.md
	$(GO) test -run '^$$' -bench Scale -benchtime 1x -whole -timeout 3h ./framework/sim/replay

lint: ## gofmt, vet, staticcheck, gosec, and govulncheck where its database answers
	@test -z "$$(gofmt -l .)" || { echo "not gofmt'd: $$(gofmt -l .)"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags packages ./deploy
	$(GO) vet -tags marathonclients ./internal/e2e
	$(GO) vet -tags mesos ./internal/e2e/... ./executor/unified/... ./framework/checklist/... ./isolator/...
	$(GO) tool staticcheck ./...
	scripts/gosec.sh --if-reachable
	scripts/vuln.sh --if-reachable

vuln: ## known vulnerabilities in what the binary calls, except those in scripts/accepted-findings.txt
	scripts/vuln.sh

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz.sh $(FUZZTIME)

MUTANTS ?= 40
MUTATED ?= ./framework/sched ./framework/sched/admission ./framework/sched/pending ./framework/sched/placement ./framework/sched/queue ./framework/sched/quota ./isolator/allocation ./isolator/rules ./job ./volumemgr
mutate: ## which faults the own tests of the pure packages and of volumemgr do not detect: MUTANTS of them in each package, 0 for all
	scripts/mutate.sh -n $(MUTANTS) $(MUTATED)

clean: ## remove what build and tests made
	rm -rf bin
