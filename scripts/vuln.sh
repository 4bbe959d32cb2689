#!/usr/bin/env bash
# Runs govulncheck on all packages, and fails for what it finds and scripts/accepted-findings.txt does not list. It
# uses vuln.go.dev, or the database that GOVULNDB names (https://… or file:///…). GOVULNCHECK names an installed
# program to use. With --if-reachable it skips the check, and names it, where the database does not answer.
set -euo pipefail
cd "$(dirname "$0")/.."
database=${GOVULNDB:-https://vuln.go.dev}
if [[ ${1:-} == --if-reachable ]] && ! curl -fsS --max-time 10 -o /dev/null "${database%/}/index/db.json" 2>/dev/null; then
	echo "SKIPPED govulncheck: the database of vulnerabilities at $database does not answer"
	exit 0
fi
status=0
found=$(${GOVULNCHECK:-go run golang.org/x/vuln/cmd/govulncheck@v1.9.0} -db "$database" ./...) || status=$?
echo "$found"
((status == 0)) && exit 0
ids=$(grep -oE '^Vulnerability #[0-9]+: GO-[0-9]+-[0-9]+' <<<"$found" | sed 's/.*: //' | sort -u || true)
accepted=$(awk '$1 == "govulncheck" { print $2 }' scripts/accepted-findings.txt | sort -u)
new=$(comm -23 <(echo "$ids") <(echo "$accepted"))
if [[ -z $ids || -n $new ]]; then
	echo "govulncheck failed with status $status${new:+; not in scripts/accepted-findings.txt: ${new//$'\n'/ }}" >&2
	exit 1
fi
