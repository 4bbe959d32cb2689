#!/usr/bin/env bash
# test-packages.sh: prints this module's packages that have tests, one a line, the
# slowest first, each after race or plain.
#
# plain are the packages in which nothing runs concurrently: neither they nor
# any package of this module that they or their tests import starts a goroutine,
# and their tests link no HTTP server. The race detector would find nothing in them
# and slow down tests that compute. race are all other packages, except these,
# which compute most of the time, and whose code other tests run with the detector:
# - framework/sim, framework/sim/replay: cmd/mesos-gpu
# - framework/journal: framework and internal/e2e
# - framework/crash, which runs schedulers as processes that it kills: framework
# - framework/web, which serves files, and whose tests read the messages of a
#   browser: framework/apiserver, framework and internal/e2e
# - internal/testing/clustersim, in which each simulated cluster is one goroutine
# And except these, whose tests run in less than a tenth of the time that a binary
# with the detector takes to link:
# - internal/cli, internal/cli/cluster, internal/cli/daemons, internal/cli/simulate,
#   which read flags and print: cmd/mesos-gpu and internal/e2e
# - internal/e2e/starts, which has only benchmarks
# make test-long runs framework/journal and framework/crash with the detector.
set -euo pipefail
cd "$(dirname "$0")/.."

# go test starts packages in the order given. These take the longest: started
# last, they would run alone at the end.
slowest=(internal/e2e executor/docker framework framework/web framework/crash deploy isolator/limiter internal/local/agent framework/journal framework/checklist framework/sim isolator/module executor cmd/mesos-gpu framework/apiserver framework/access/gate internal/e2e/marathon framework/sched framework/internal/zkconn executor/rotate isolator/mps isolator/nvml isolator/socket framework/master volumemgr internal/local framework/usagehistory)

module=$(go list -m)
concurrent=$(grep -rlE --include='*.go' '^\s*(defer )?go (func\b|[A-Za-z_.]+\()|\.Go\(|\bt\.Parallel\(' cmd deploy executor framework gpu internal isolator job marathon volumemgr |
	sed 's,/[^/]*$,,' | sort -u)
for p in "${slowest[@]}"; do
	[ -d "$p" ] || { echo "scripts/test-packages.sh: $p does not exist" >&2; exit 1; }
done

# go list -test prints a line P.test with all that P's test binary links.
# Variants of packages for a test are named "P [Q.test]" and "P_test [Q.test]".
go list -test -f '{{.ImportPath}} {{join .Deps "|"}}' ./... |
	awk -v module="$module" -v concurrent="$concurrent" -v slowest="${slowest[*]}" '
	BEGIN {
		n = split(concurrent, list, "\n"); for (i = 1; i <= n; i++) starts[module "/" list[i]] = 1
		n = split(slowest, list, " "); for (i = 1; i <= n; i++) rank[module "/" list[i]] = i
	}
	$1 ~ /\.test$/ {
		tested = substr($1, 1, length($1) - 5); kind = "plain"
		n = split(substr($0, length($1) + 2), deps, "|")
		for (i = 1; i <= n; i++) {
			d = deps[i]; sub(/ \[.*/, "", d)
			if (d == "net/http/httptest") kind = "race"
			sub(/_test$/, "", d)
			if (d in starts) kind = "race"
		}
		if (substr(tested, length(module) + 2) ~ /^(framework\/(sim|sim\/replay|journal|crash|web)|internal\/testing\/clustersim|internal\/cli(\/(cluster|daemons|simulate))?|internal\/e2e\/starts)$/) kind = "plain"
		print (tested in rank ? rank[tested] : 999), kind, tested
	}' | sort -n -k1,1 -s | cut -d' ' -f2-
