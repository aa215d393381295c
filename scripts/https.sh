#!/usr/bin/env bash
# curl --http2 and wrk (Debian's packages) against examples/https on both kinds of ring: every request must be answered right.
#
#	scripts/https.sh [requests]     # of curl on each ring, 100,000 without; wrk makes as many as it can in WRK_SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
requests=${1:-100000}
seconds=${WRK_SECONDS:-5}
case $requests in '' | *[!0-9]* | 0*) echo "requests '$requests': want a number above 0"; exit 2 ;; esac
case $seconds in '' | *[!0-9]* | 0*) echo "WRK_SECONDS '$seconds': want a number of whole seconds above 0"; exit 2 ;; esac
for tool in curl wrk; do
	command -v $tool >/dev/null || { echo "$tool is not installed: apt-get install $tool"; exit 1; }
done
curl --version | grep -q HTTP2 || { echo "this curl cannot do HTTP/2"; exit 1; }
work=$(mktemp -d)
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"; }
trap cleanup EXIT
go build -o "$work/https" ./examples/https
failed=0
per=$((requests < 1000 ? requests : 1000)) # requests of one curl

for ring in uring epoll; do
	"$work/https" -listen 127.0.0.1:0 -ring $ring >"$work/log" 2>&1 &
	server=$!
	for _ in $(seq 100); do grep -q listening "$work/log" && break; sleep 0.05; done
	url=$(sed -n 's/^listening on //p' "$work/log")
	[ -n "$url" ] || { cat "$work/log"; exit 1; }
	sed 1d "$work/log"

	# Three in four on one connection one after the other, one in four 50 at a time (-Z). The answer tells the protocol.
	start=$SECONDS done=0 round=0
	while [ $done -lt "$requests" ]; do
		n=$((requests - done < per ? requests - done : per))
		parallel=
		[ $((round % 4)) -eq 3 ] && parallel="-Z --parallel-max 50"
		# shellcheck disable=SC2086
		if ! curl -sS -k --http2 --fail --max-time 120 $parallel "$url/hello?[1-$n]" >"$work/out" 2>"$work/err"; then
			echo "$ring: curl $parallel failed after $done requests:"; head -n 5 "$work/err"; failed=1; break
		fi
		right=$(grep -c '^hello over HTTP/2.0$' "$work/out" || true)
		[ "$right" = "$n" ] || { echo "$ring: $right right answers of $n"; failed=1; break; }
		done=$((done + n)) round=$((round + 1))
	done
	printf '%-6s curl --http2: %d requests in %d s\n' "$ring" "$done" $((SECONDS - start))

	for path in hello bytes/20000; do
		status=0
		wrk -t 2 -c 50 -d "${seconds}s" "$url/$path" >"$work/wrk" 2>&1 || status=$?
		printf '%-6s wrk -c 50 /%s: %s\n' "$ring" "$path" "$(sed -n 's/^ *\(.*requests in.*\)/\1/p' "$work/wrk")"
		if [ $status != 0 ] || ! grep -q 'requests in' "$work/wrk" || grep -qE 'Socket errors|Non-2xx' "$work/wrk"; then
			echo "$ring: wrk /$path ended with status $status:"; cat "$work/wrk"; failed=1
		fi
	done
	kill "$server"
	wait "$server" || { echo "$ring: the server did not exit cleanly:"; cat "$work/log"; failed=1; }
	server=
done
[ $failed = 0 ] && echo "https: passed"
exit $failed
