#!/usr/bin/env bash
# sockperf (Debian's package, 3.7) as a client against examples/echo -reply sockperf, on both kinds of ring:
# ping-pong must lose, duplicate and reorder nothing; under load nothing may be duplicated. In throughput mode the client gets no
# answers and counts none: it must run to its end, and the server must exit cleanly after it.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v sockperf >/dev/null || { echo "sockperf is not installed: apt-get install sockperf"; exit 1; }
seconds=${SECONDS_EACH:-2}
work=$(mktemp -d)
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"; }
trap cleanup EXIT
go build -o "$work/echo" ./examples/echo
failed=0

check() { # ring, what must be 0, sockperf arguments...
	local ring=$1 zero=$2 out
	shift 2
	if ! out=$(timeout $((seconds + 20)) sockperf "$@" -t "$seconds" -i 127.0.0.1 -p 5701 2>&1 | sed 's/\x1b\[[0-9;]*m//g'); then
		echo "$ring: sockperf $*: failed"; echo "$out"; failed=1; return
	fi
	local line
	line=$(grep -E 'dropped messages|messages sent in' <<<"$out" | tail -n 1)
	printf '%-6s %-44s %s\n' "$ring" "$*" "${line#sockperf: }"
	[ -n "$line" ] || { echo "$out"; failed=1; }
	local what
	for what in $zero; do
		grep -q "# $what messages = 0" <<<"$out" || grep -q "# $what = 0" <<<"$out" || { echo "  $what is not 0"; failed=1; }
	done
}

for ring in uring epoll; do
	"$work/echo" -listen 127.0.0.1:5701 -ring $ring -reply sockperf -rest adaptive >"$work/log" 2>&1 &
	server=$!
	for _ in $(seq 100); do grep -q listening "$work/log" && break; sleep 0.05; done
	for tcp in "" --tcp; do
		check $ring "dropped duplicated out-of-order" pp $tcp
		check $ring "duplicated" ul --mps 10000 --reply-every 10 $tcp
		check $ring "" tp -m 64 $tcp
	done
	kill "$server"
	wait "$server" || { echo "$ring: the server did not exit cleanly:"; cat "$work/log"; failed=1; }
	server=
done
[ $failed = 0 ] && echo "sockperf: passed"
exit $failed
