#!/usr/bin/env bash
# sockperf (Debian's package, 3.7) as a client against examples/echo -reply sockperf, on every kind of ring:
# ping-pong must lose, duplicate and reorder nothing; under load, and played back from a list of times and sizes, nothing may be duplicated,
# and played back nothing come out of order (what the client counts as dropped is what was on its way when it ended). In throughput mode the client gets no
# answers and counts none: it must run to its end, and the server must exit cleanly after it.
#
# The offloaded round wants root: the server is in one network namespace, the client in another, a veth pair with its offloads as they are
# between them. There what the client's kernel has sent must be what the server received plus what it counts as lost, by reason, and the
# client's kernel must find no wrong checksum.
#
# RINGS: the kinds to run, all by default. PORT: the server's, of two runs beside each other. SECONDS_EACH: of each run of sockperf.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v sockperf >/dev/null || { echo "sockperf is not installed: apt-get install sockperf"; exit 1; }
rings=" ${RINGS:-uring epoll offload} " port=${PORT:-5701}
seconds=${SECONDS_EACH:-2}
work=$(mktemp -d)
server=
here=sx-here-$$ there=sx-there-$$ # namespaces of the offloaded round
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	ip netns del $here 2>/dev/null || true
	ip netns del $there 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
go build -o "$work/echo" ./examples/echo
failed=0
address=127.0.0.1 client=

check() { # ring, what must be 0, sockperf arguments...
	local ring=$1 zero=$2 out time="-t $seconds"
	shift 2
	[ "$1" != playback ] || time="--data-file $work/playback.csv" # its own times
	if ! out=$($client timeout $((seconds + 20)) sockperf "$@" $time -i $address -p "$port" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'); then
		echo "$ring: sockperf $*: failed"; echo "$out"; failed=1; return
	fi
	local line
	line=$(grep -E 'dropped messages|messages sent in' <<<"$out" | tail -n 1)
	printf '%-8s %-44s %s\n' "$ring" "$*" "${line#sockperf: }"
	[ -n "$line" ] || { echo "$out"; failed=1; }
	local what
	for what in $zero; do
		grep -q "# $what messages = 0" <<<"$out" || grep -q "# $what = 0" <<<"$out" || { echo "  $what is not 0"; failed=1; }
	done
}

# What is played back: a message each half millisecond, from 32 to 1431 bytes, and bursts of ten.
awk -v seconds="$seconds" 'BEGIN {
	print "# seconds, bytes"
	for (i = 1; i <= 2000 * seconds; i++) printf "%.6f, %d\n", (i % 400 < 200 ? i : i - i % 10) * 0.0005 + i % 10 * 0.000001, 32 + i * 37 % 1400
}' >"$work/playback.csv"

serve() { # ring, command to run it under...
	local ring=$1
	shift
	"$@" "$work/echo" -listen $address:$port -ring "$ring" -reply sockperf -rest adaptive >"$work/log" 2>&1 &
	server=$!
	for _ in $(seq 100); do grep -q listening "$work/log" && return; sleep 0.05; done
	echo "$ring: the server did not start:"; cat "$work/log"; failed=1
}

finish() { # ring
	kill "$server"
	wait "$server" || { echo "$1: the server did not exit cleanly:"; cat "$work/log"; failed=1; }
	server=
}

for ring in uring epoll; do
	[[ $rings = *" $ring "* ]] || continue
	serve $ring
	for tcp in "" --tcp; do
		check $ring "dropped duplicated out-of-order" pp $tcp
		check $ring "duplicated" ul --mps 10000 --reply-every 10 $tcp
		check $ring "" tp -m 64 $tcp
		check $ring "duplicated out-of-order" playback --reply-every 1 $tcp
	done
	finish $ring
done

udp() { # counter of UDP in the client's namespace
	ip netns exec $there awk -v name="$1" '$1 == "Udp:" { if (at) { print $at; exit } for (i = 2; i <= NF; i++) if ($i == name) at = i }' \
		/proc/net/snmp
}

counted() { awk -v name="$1" '$1 == name { n += $2 } END { print n + 0 }' "$work/log"; }

# Where a datagram can end that was sent to the socket and not delivered. What the kernel lost before the steering program is in the
# statistics of the two ends of the cable.
reasons="sockets.drops v0.rx_lost v0.steer.oversize udp.budget udp.sum udp.partial_sum udp.no_socket ipv4.sum stack.no_buffer"

offloaded() { # sockperf arguments...
	local zero=$1 sent received lost=0 n name
	shift
	local before device
	before=$(udp OutDatagrams)
	serve offload ip netns exec $here
	grep -q '^UDP: bypass ' "$work/log" || { echo "offload: not offloaded:"; cat "$work/log"; failed=1; }
	device=$(losses)
	check offload "$zero" "$@"
	finish offload
	sent=$(($(udp OutDatagrams) - before)) received=$(counted ring.packets)
	printf '         sent %d = received %d' "$sent" "$received"
	for name in $reasons; do
		n=$(counted $name)
		[ "$n" = 0 ] || { printf ' + %s %d' "$name" "$n"; lost=$((lost + n)); }
	done
	n=$(($(losses) - device))
	[ "$n" = 0 ] || { printf ' + lost on the cable %d' "$n"; lost=$((lost + n)); }
	printf '; by the kernel %d\n' "$(counted offload.os_packets)"
	[ "$sent" = $((received + lost)) ] || { echo "  $((sent - received - lost)) are not accounted for"; cat "$work/log"; failed=1; }
}

losses() { # of the cable, as both ends count them; a frame that the far side refuses is counted by the sending side too
	ip netns exec $there cat /sys/class/net/p0/statistics/tx_dropped
}

if [[ $rings != *" offload "* ]]; then
	:
elif [ "$(id -u)" != 0 ]; then
	echo "offload: left out: network namespaces and AF_XDP want root"
	[ -z "${RINGS:-}" ] || failed=1 # it was asked for by name
elif ! ip netns add $here || ! ip netns add $there ||
	! ip -n $here link add v0 type veth peer name p0 netns $there; then
	echo "offload: left out: no network namespaces or veth pairs here"
	[ -z "${RINGS:-}" ] || failed=1
else
	for end in "$here v0 10.57.0.1" "$there p0 10.57.0.2"; do
		read -r ns dev a <<<"$end"
		ip -n "$ns" link set lo up
		ip -n "$ns" addr add "$a/24" dev "$dev"
		ip -n "$ns" link set "$dev" up
	done
	address=10.57.0.1 client="ip netns exec $there"
	offloaded "dropped duplicated out-of-order" pp
	offloaded "duplicated" ul --mps 10000 --reply-every 10
	offloaded "" tp -m 64
	offloaded "duplicated out-of-order" playback --reply-every 1
	grep 'offloaded interface' "$work/log" || { echo "offload: the checksum rule was not logged"; failed=1; }
	wrong=$(udp InCsumErrors)
	echo "offload  wrong checksums at the client's kernel: $wrong"
	[ "$wrong" = 0 ] || failed=1
fi
[ $failed = 0 ] && echo "sockperf: passed"
exit $failed
