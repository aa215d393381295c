#!/usr/bin/env bash
# The slow reader of reactor/gnet in its long form: clients that read slowly or not at all, with a producer that never rests (a
# flooded echo server, a server that pushes), on both kinds of ring. Fails unless memory stays flat and the other
# connection is answered as before; prints the figures.
#
#   scripts/slow-reader.sh [duration]     of each of the four, 60s without
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-60s}
[[ $duration =~ ^[1-9][0-9]{0,3}[sm]$ ]] || { echo "usage: scripts/slow-reader.sh [duration, as 60s or 5m]"; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/gnet.test" ./reactor/gnet
seconds=${duration%[sm]}
[[ $duration == *m ]] && seconds=$((60 * seconds))
status=0
SOCKETXTREME_LONG=$duration GNET_LOGGING_LEVEL=1 "$work/gnet.test" -test.run '^TestSlowReader$' -test.v \
	-test.timeout $((5 * seconds + 120))s >"$work/log" 2>&1 || status=$?
sed -n -E 's/^ *slow_reader_test\.go:[0-9]+: //p' "$work/log"
if [ $status != 0 ]; then
	grep -vE '=== RUN|INFO' "$work/log"
	echo "slow-reader: failed"
	exit 1
fi
echo "slow-reader: passed"
