#!/usr/bin/env bash
# redis's own tools (Debian's redis-tools and redis-server, 7.0) against examples/resp on both kinds of ring, beside redis-server and
# the same handler on gnet: redis-benchmark -t set,get, one command at a time on 50 connections and 16 at a time on 100, and a few
# words of redis-cli. Any error line fails; the rates are printed, and judge nothing.
#
#   scripts/redis.sh [requests]     of each test, 200,000 without
set -euo pipefail
cd "$(dirname "$0")/.."
requests=${1:-200000}
[[ $requests =~ ^[1-9][0-9]{2,8}$ ]] || { echo "usage: scripts/redis.sh [requests, 100 to 999999999]"; exit 2; }
for tool in redis-server redis-cli redis-benchmark; do
	command -v $tool >/dev/null || { echo "$tool is not installed: apt-get install redis-server redis-tools"; exit 1; }
done
work=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	[ -z "$server" ] || wait "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
go build -o "$work/resp" ./examples/resp
go build -o "$work/bench" ./bench
failed=0
fail() { echo "$name: $*"; failed=1; }

# A port that nobody has, below those that the kernel gives to clients (net.ipv4.ip_local_port_range); who takes it in between makes the server
# say so, and the run fail.
free_port() {
	local port
	for _ in $(seq 100); do
		port=$((20000 + RANDOM % 12000))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
	done
	return 1
}

start() { # starts the server called name; sets port and server
	port=$(free_port)
	local command
	case $name in
	redis-server) command=(redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$work") ;;
	gnet) command=("$work/bench" peer gnet -role resp -addr "127.0.0.1:$port") ;;
	*) command=("$work/resp" -listen "127.0.0.1:$port" -ring "$name" -rest adaptive) ;;
	esac
	"${command[@]}" >"$work/log" 2>&1 &
	server=$!
	for _ in $(seq 200); do
		[ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ] && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.05
	done
	fail "does not answer:"
	cat "$work/log"
	exit 1
}

stop() {
	kill "$server"
	wait "$server" || { fail "did not exit cleanly:"; cat "$work/log"; }
	server=
}

says() { # expected, command...
	local want=$1 got
	shift
	got=$(redis-cli -p "$port" "$@" 2>&1) || true
	[ "$got" = "$want" ] || fail "redis-cli $*: got '$got', want '$want'"
}

talk() {
	says OK set greeting 'hello, world' ex 100
	says 'hello, world' get greeting
	says 100 ttl greeting
	says 41 incrby n 41
	says 42 incr n
	says OK mset a 1 b 2
	says $'1\n2' mget a b
	says 'ERR value is not an integer or out of range' incrby n x
	says 'WRONGPASS invalid username-password pair or user is disabled.' auth bob secret
	says 4 dbsize
	says hi -3 echo hi
	[ "$(redis-cli -p "$port" --scan | sort | tr '\n' ' ')" = "a b greeting n " ] || fail "redis-cli --scan does not give the four keys"
	[ "$(seq 1000 | sed 's/.*/SET key:& &/' | redis-cli -p "$port" --pipe 2>&1 | grep -c 'errors: 0, replies: 1000')" = 1 ] ||
		fail "redis-cli --pipe"
	says 1004 dbsize
	says OK flushall
	says 0 dbsize
}

load() { # label, redis-benchmark arguments...
	local label=$1 out
	shift
	if ! out=$(timeout 300 redis-benchmark -p "$port" -t set,get -n "$requests" -d 64 -r 10000 --csv "$@" 2>&1); then
		fail "redis-benchmark $*: failed"; echo "$out"; return
	fi
	if grep -qiE 'error|warning|could not|denied' <<<"$out"; then
		fail "redis-benchmark $*:"; echo "$out"; return
	fi
	# "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
	local rows
	rows=$(tr -d '"' <<<"$out" | awk -F, -v n="$name" -v l="$label" '$1 == "SET" || $1 == "GET" {
		printf "%-14s %-14s %-4s %10.0f /s   p50 %6.3f ms   p99 %6.3f ms\n", n, l, $1, $2, $5, $7 }')
	[ "$(wc -l <<<"$rows")" = 2 ] || { fail "redis-benchmark $*: no result"; echo "$out"; return; }
	echo "$rows"
}

echo "$(redis-server --version | cut -d' ' -f1-3), $requests requests of each test, 64 B, $(nproc) processors"
for name in uring epoll gnet redis-server; do
	start
	talk
	load "-P 1 -c 50" -P 1 -c 50
	load "-P 16 -c 100" -P 16 -c 100
	stop
done
[ $failed = 0 ] && echo "redis: passed"
exit $failed
