#!/usr/bin/env bash
# Runs the benchmarks of packages in this tree and in an earlier commit, one after the
# other in each of several rounds, so that other work on the machine slows both, and
# prints the differences. Benchmarks that only one of them has are printed alone.
#
#   scripts/bench-compare.sh COMMIT [-bench PATTERN] [-rounds N] [-benchtime T] [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/.."
usage="scripts/bench-compare.sh COMMIT [-bench PATTERN] [-rounds N] [-benchtime T] [PACKAGE...]"
commit=${1:?"$usage"}
shift
pattern=. rounds=6 benchtime=300ms
while [[ ${1:-} == -* ]]; do
	case $1 in
	-bench) pattern=$2 ;;
	-rounds) rounds=$2 ;;
	-benchtime) benchtime=$2 ;;
	*) echo "$1: $usage" >&2 && exit 2 ;;
	esac
	shift 2
done
[[ $# -gt 0 ]] || set -- ./framework/sched/...

work=$(mktemp -d)
trap 'git worktree remove --force "$work/before" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/before" "$commit"
export GOFLAGS="-trimpath $(go env GOFLAGS)"

mapfile -t files < <(go list -f '{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}' "$@")
mapfile -t folders < <(grep -l '^func Benchmark' "${files[@]}" | xargs -n1 dirname | sort -u)
for folder in "${folders[@]}"; do
	folder=${folder#"$PWD/"}
	for tree in "$work/before" "$PWD"; do
		name=$([[ $tree == "$PWD" ]] && echo after || echo before)
		[[ -d $tree/$folder ]] || continue
		(cd "$tree" && go test -c -vet=off -o "$work/$name.test" "./$folder")
	done
	for _ in $(seq "$rounds"); do
		for name in before after; do
			[[ -x $work/$name.test ]] || continue
			tree=$([[ $name == after ]] && echo "$PWD" || echo "$work/before")
			(cd "$tree/$folder" && "$work/$name.test" -test.run '^$' -test.bench "$pattern" -test.benchtime "$benchtime") >>"$work/$name.txt"
		done
	done
	rm -f "$work/before.test" "$work/after.test"
done
go tool benchstat "before=$work/before.txt" "after=$work/after.txt"
