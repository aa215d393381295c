#!/usr/bin/env bash
# Shows that tests which were committed before their mend failed there, and pass now.
#
#   scripts/red-tests.sh [BASE [HEAD]]     commits after BASE (default: all) up to HEAD
#
# A commit that adds a failing test says so in the body of its message: "Red: ARGUMENTS OF go test". Each such line is run twice, on the commit itself,
# where it must fail without failing to build, and on HEAD, where it must run a test and pass. Needs root, as the tests do.
set -uo pipefail
cd "$(dirname "$0")/.."
head=$(git rev-parse "${2:-HEAD}")
range=$head
[ $# -gt 0 ] && range=$1..$head

tree=$(mktemp -d)
log=$tree.log
git worktree add -q --detach "$tree" "$head" || exit 1
trap 'git worktree remove -f "$tree"; rm -f "$log"' EXIT

# run REVISION ARGUMENTS...: the exit code of go test there.
run() {
	git -C "$tree" checkout -q -f "$1" || exit 1
	shift
	(cd "$tree" && timeout 600 go test -count=1 "$@") >"$log" 2>&1
}

bad=0 lines=0
report() {
	printf '%-7s %s\n' "$1" "$2"
	[ "$1" = ok ] || { bad=$((bad + 1)) && tail -n 20 "$log"; }
}
while read -r commit; do
	while read -r arguments; do
		[ -n "$arguments" ] || continue
		lines=$((lines + 1))
		read -r -a words <<<"${arguments//[\"\']/}" # split at blanks; quotes are for readers
		set -- "${words[@]}"
		if run "$commit" "$@"; then
			report PASSES "${commit:0:8} go test $arguments (should fail)"
		elif grep -qE '\[(build|setup) failed\]|no test files|cannot find package' "$log"; then
			report BROKEN "${commit:0:8} go test $arguments (does not build)"
		else
			report ok "${commit:0:8} fails: go test $arguments"
		fi
		if ! run "$head" "$@"; then
			report FAILS "${head:0:8} go test $arguments (should pass)"
		elif grep -q 'no tests to run' "$log"; then
			report GONE "${head:0:8} go test $arguments (no such test)"
		else
			report ok "${head:0:8} passes: go test $arguments"
		fi
	done < <(git log -1 --format=%b "$commit" | sed -n 's/^Red: //p')
done < <(git log --reverse --format=%H "$range" | while read -r c; do git log -1 --format=%b "$c" | grep -q '^Red: ' && echo "$c"; done)
echo "red-tests: $lines lines, $bad not as they should be"
[ "$bad" = 0 ] && [ "$lines" -gt 0 ]
