#!/usr/bin/env bash
# Runs gosec on the product, and fails for what it finds and scripts/accepted-findings.txt does not list by rule and file, and for
# what is listed there and is found no more. With --if-reachable it skips the check, and names it, where gosec cannot be built
# because no module proxy has it. gosec's own module is scripts/gosec.mod.
set -euo pipefail
cd "$(dirname "$0")/.."
gosec=(go tool -modfile=scripts/gosec.mod gosec)
if ! problem=$("${gosec[@]}" -version 2>&1); then
	[[ ${1:-} == --if-reachable ]] || { echo "$problem" >&2; exit 1; }
	echo "SKIPPED gosec: it cannot be built: ${problem##*$'\n'}"
	exit 0
fi
# A rule that is accepted in all files (*) is not run.
all=$(awk '$1 == "gosec" && $3 == "*" { print $2 }' scripts/accepted-findings.txt | paste -sd,)
found=$("${gosec[@]}" -quiet -fmt=golint -exclude="$all" -exclude-dir=internal/testing -exclude-dir=internal/e2e ./... 2>/dev/null || true)
of_found=$(sed -nE "s#^$PWD/([^:]+):.*\(Rule:(G[0-9]+),.*#gosec \2 \1#p" <<<"$found" | sort -u)
accepted=$(awk '$1 == "gosec" && $3 != "*" { print $1, $2, $3 }' scripts/accepted-findings.txt | sort -u)
[[ -n $of_found ]] || { echo "gosec found nothing, not even what is accepted: it did not run" >&2; exit 1; }
new=$(comm -23 <(echo "$of_found") <(echo "$accepted"))
gone=$(comm -13 <(echo "$of_found") <(echo "$accepted"))
if [[ -n $new ]]; then
	while read -r _ rule file; do grep -F "$PWD/$file:" <<<"$found" | grep -F "(Rule:$rule," >&2; done <<<"$new"
	echo "gosec: scripts/accepted-findings.txt does not list these" >&2
fi
[[ -z $gone ]] || echo "gosec: scripts/accepted-findings.txt lists what is found no more: ${gone//$'\n'/; }" >&2
[[ -z $new && -z $gone ]]
