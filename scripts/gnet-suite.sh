#!/usr/bin/env bash
# Runs gnet's own tests against reactor/gnet: gnet_test.go, client_test.go and os_unix_test.go of the gnet module that
# go.mod names, taken from the module cache and laid over the package for this run only. They run in a network
# namespace of their own, because they want fixed ports, multicast on lo and an Ethernet interface.
#
#   scripts/gnet-suite.sh [-q] [go test flags...]
#
#   RING=uring|epoll|offload   the kind of ring (default: uring, then epoll). offload is TCP and UDP of our own stack: what the tests dial on
#                        this host goes over a veth to a program that sends it back (internal/testnet.Reflect). Root.
#   MODE=exact|default   exact: all 31 tests must pass. default: all but the cases listed below under "corrected"
#   RUN=regexp           a subset, as for go test -run; then the number of tests is not checked
#   RACE=1               with the race detector
#   FAST=1               the clients' random data comes from a generator instead of crypto/rand, and they send for a fifth of the time
#   -q                   a quick subset, 25 tests: without the long servers, proxies, TestClient and TestServeMulticast; RUN does not count
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${MODE:-exact}
run=${RUN:-}
expected=31
case $mode in exact | default) ;; *) echo "gnet-suite: MODE=$mode: want exact or default" >&2; exit 2 ;; esac
for r in ${RING:-uring epoll}; do
	case $r in uring | epoll | offload) ;; *) echo "gnet-suite: RING=$r: want uring, epoll or offload" >&2; exit 2 ;; esac
done
far=
case ${RING:-} in
offload) far=10.77.0.200 ;;
*offload*) echo "gnet-suite: RING=$RING: offload runs alone, its tests dial other addresses" >&2; exit 2 ;;
esac
quick='^Test(DefaultGnetServer|BadAddresses|Tick|WakeConn|Shutdown|CloseActionError|ShutdownActionError|CloseActionOnOpen|ShutdownActionOnOpen|UDPShutdown|CloseConnection|ServerOptionsCheck|StopServer|EngineStop|ClosedWakeUp|MultiInstLoggerRace|DisconnectedAsyncWrite|UDPSendtoServer|SafeContext|WakeConnImmediately|ClientReadOnEOF|ClientSafeContext|MulticastBindIPv4|MulticastBindIPv6|BindToDevice)$'
if [ "${1:-}" = -q ]; then
	run=$quick
	shift
fi

# corrected: what default mode does better than the tests assert. Deadlines and Schedule work there, so that the lines
# that want ErrUnsupportedOp are told so; nothing else is touched.
corrected=(
	's/assert.ErrorIs(s.tester, c.Set\(Read\|Write\|\)Deadline(time.Now().Add(time.Second)), errorx.ErrUnsupportedOp)/assert.NoError(s.tester, c.Set\1Deadline(time.Time{}))/'
)

module=$(go list -m -f '{{.Dir}}' github.com/panjf2000/gnet/v2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

package=$PWD/reactor/gnet
{
	echo '{"Replace": {'
	for f in "$package"/*_test.go; do # the package's own tests stay out: they have names of their own
		[ -e "$f" ] && printf '"%s": "",\n' "$f"
	done
	for f in gnet_test client_test os_unix_test; do
		cp "$module/$f.go" "$work/$f.go"
		chmod u+w "$work/$f.go"
		printf '"%s": "%s",\n' "$package/suite_${f%_test}_test.go" "$work/$f.go"
	done
	printf '"%s": "%s"\n' "$package/suite_helper_test.go" "$work/helper.go"
	echo '}}'
} >"$work/overlay.json"

# The one helper of gnet's that its tests use and that has another name here, and the mode.
cat >"$work/helper.go" <<'GO'
package gnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func parseProtoAddr(address string) (string, string, error) { return parseAddress(address) }

// suiteFar is the address by which this host reaches itself over the wire; not valid where it need not.
var suiteFar netip.Addr

func init() {
	if os.Getenv("GNET_SUITE_MODE") == "exact" {
		optionDefaults = WithExactGnet()
	}
	if far := os.Getenv("GNET_SUITE_FAR"); far != "" {
		suiteFar = netip.MustParseAddr(far)
		reflected := make(chan error)
		go func() { reflected <- suiteReflect() }()
		if err := <-reflected; err != nil {
			panic(err)
		}
	}
}

// suiteReflect has the far end of the veth send back what is for suiteFar, until the process ends.
func suiteReflect() error {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	peer, err := os.Open(os.Getenv("GNET_SUITE_PEER"))
	if err != nil {
		return err
	}
	defer peer.Close()
	if err := testnet.EnterNamespace(peer); err != nil {
		return err
	}
	suiteReflector, err = testnet.Reflect("peer0", suiteFar)
	return err
}

var suiteReflector io.Closer // kept: a link that is collected is closed

// suiteAddress is where an address of this host is dialled.
func suiteAddress(network, address string) string {
	host, port, err := net.SplitHostPort(address)
	if !suiteFar.IsValid() || err != nil || network == "unix" || strings.HasSuffix(network, "6") || host != "" && host != "10.77.0.1" {
		return address
	}
	return net.JoinHostPort(suiteFar.String(), port)
}
GO
if [ "$mode" = default ]; then
	for s in "${corrected[@]}"; do sed -i "$s" "$work"/gnet_test.go; done
	# Schedule of nothing, and after the end: errors here too, but the ones that say what is wrong
	perl -0pi -e 's/(srv\.eventLoop\.Schedule\(.*?\)\n\s*require\.ErrorIsf\(t, err, errorx\.)ErrUnsupportedOp/$1ErrEngineInShutdown/g;
		s/(c\.EventLoop\(\)\.Schedule\(.*?\)\n\s*assert\.ErrorIsf\(p\.tester, err, errorx\.)ErrUnsupportedOp/$1ErrNilRunnable/g' "$work/gnet_test.go"
fi

# On our own stack a connection has no descriptor: Dup answers ErrUnsupportedOp (docs/from-gnet.md). TestServer's handler is told so; what it
# does behind that is as it was.
if [ -n "$far" ]; then
	perl -0pi -e 's/(\t\tfd, err := c\.Dup\(\)\n)(.*?"close error"\)\n)/$1\t\tif c.Fd() < 0 {\n\t\t\tassert.ErrorIs(s.tester, err, errorx.ErrUnsupportedOp)\n\t\t} else {\n$2\t\t}\n/s' "$work/gnet_test.go"
	grep -q 'if c.Fd() < 0 {' "$work/gnet_test.go" || { echo "gnet-suite: Dup is not where it was: look at what is new" >&2; exit 1; }
fi

if [ -n "${FAST:-}" ]; then
	sed -i '/^\tcrand "crypto\/rand"$/d; s/\bcrand\.Read(/suiteRandom(/g
		s/^\(\tduration := time.Duration((rand.Float64()\*2+1)\*float64(time.Second)) \/ \)2$/\110/
		s/^\(\t\tduration = [2-5] \* time.Second\)$/\1 \/ 5/' "$work"/{gnet_test,client_test,os_unix_test}.go
	[ "$(cat "$work"/{gnet_test,client_test}.go | grep -c 'time\.Second)) / 10$\|time\.Second / 5$')" = 6 ] ||
		{ echo "gnet-suite: how long clients send is not where it was: look at what is new" >&2; exit 1; }
	cat >"$work/random.go" <<'GO'
package gnet

import "math/rand/v2"

func suiteRandom(b []byte) (int, error) {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return rand.NewChaCha8(seed).Read(b)
}
GO
	sed -i "s|^\"Replace\": {|&|; s|^{\"Replace\": {$|&\n\"$package/suite_random_test.go\": \"$work/random.go\",|" "$work/overlay.json"
fi

# What the tests dial on this host is dialled at the far address, if there is one: a host reaches its own addresses without a card.
sed -i -E \
	-e 's/\bnet\.Dial\(("tcp"|network|[ts]\.network), (addr|[ts]\.addr)\)/net.Dial(\1, suiteAddress(\1, \2))/' \
	-e 's/\bcli\.DialContext\((network|"tcp"), ([a-z]+|"[^"]*"), /cli.DialContext(\1, suiteAddress(\1, \2), /' \
	-e 's/\b(cli|client)\.Dial\((network|"tcp"), ([a-z]+|"[^"]*")\)/\1.Dial(\2, suiteAddress(\2, \3))/' \
	"$work"/{gnet_test,client_test,os_unix_test}.go
[ -z "$far" ] || sed -i 's/\b127\.0\.0\.1:/10.77.0.1:/' "$work"/{gnet_test,client_test}.go
tests=$(cat "$work"/{gnet_test,client_test,os_unix_test}.go | perl -0pe 's{/\*.*?\*/}{}gs' | grep -c '^func Test')
if [ "$tests" != "$expected" ]; then
	echo "gnet-suite: the module has $tests top-level tests, not $expected: look at what is new" >&2
	exit 1
fi

race=()
[ -n "${RACE:-}" ] && race=(-race)
go test -c -vet=off "${race[@]}" -overlay "$work/overlay.json" -o "$work/suite.test" ./reactor/gnet

# The namespace: lo with multicast, and a pair of Ethernet interfaces, one named as the tests look for it.
cat >"$work/inside.sh" <<'SH'
set -euo pipefail
ip link set lo up multicast on
ip -6 route add local ff00::/8 dev lo table local # the kernel adds none for lo, and takes no other kind there
queues=()
[ -z "${GNET_SUITE_FAR:-}" ] || queues=(numrxqueues "$((2 * $(nproc)))" numtxqueues "$((2 * $(nproc)))") # one for each loop
ip link add eth0 "${queues[@]}" type veth peer name peer0
sysctl -qw net.ipv6.conf.eth0.accept_dad=0 net.ipv6.conf.peer0.accept_dad=0
ip addr add 10.77.0.1/24 dev eth0
ip link set eth0 up
if [ -n "${GNET_SUITE_FAR:-}" ]; then # in a namespace of its own: a wildcard listener would open it too
	unshare --net sleep infinity &
	holder=$!
	trap 'kill $holder' EXIT
	while [ /proc/$holder/ns/net -ef /proc/self/ns/net ]; do sleep 0.01; done
	ip link set peer0 netns $holder
	nsenter -t $holder -n ip link set peer0 up
	export GNET_SUITE_PEER=/proc/$holder/ns/net
else
	ip link set peer0 up
fi
ip -6 addr add fd77::1/64 dev eth0 nodad
ip route add default via 10.77.0.2 dev eth0
if [ -n "${GNET_SUITE_FAR:-}" ]; then ip neigh add "$GNET_SUITE_FAR" lladdr 02:00:00:00:77:02 nud permanent dev eth0; fi
if [ -n "${GNET_SUITE_NO_TIME_WAIT:-}" ]; then sysctl -qw net.ipv4.tcp_max_tw_buckets=0; fi
sleep 0.3
cd "$1"
shift
[ -n "${GNET_SUITE_FAR:-}" ] || exec "$@"
code=0
"$@" || code=$?
# Of the connections that this host's kernel opened, those that it did not accept itself.
awk '/^Tcp: [0-9]/ { print "gnet-suite: connections opened by the kernel:", $6 ", accepted by the kernel:", $7 }' /proc/net/snmp
exit $code
SH

status=0
for ring in ${RING:-uring epoll}; do
	echo "gnet-suite: $mode mode, $ring"
	log=$work/$mode-$ring.log
	set +e
	user=()
	[ "$(id -u)" = 0 ] || user=(--map-root-user)
	# A subset, as FAST, leaves less time between tests that use the same port than TIME_WAIT takes, and gnet does not set SO_REUSEADDR.
	GNET_SUITE_NO_TIME_WAIT=$run${FAST:-} GNET_SUITE_FAR=$far SX_RING=$ring SX_OFFLOAD_TCP=$((${#far} > 0)) GNET_SUITE_MODE=$mode unshare --net "${user[@]}" bash "$work/inside.sh" "$work" \
		"$work/suite.test" -test.v -test.timeout "${TIMEOUT:-25m}" ${run:+-test.run "$run"} "$@" >"$log" 2>&1
	code=$?
	set -e
	passed=$(grep -c '^--- PASS' "$log" || true)
	skipped=$(grep -c -- '--- SKIP' "$log" || true)
	grep -E '^\s*--- (FAIL|SKIP)|^panic:|^FAIL' "$log" || true
	[ -n "${KEEP:-}" ] && cp "$log" "$KEEP-$ring.log"
	[ -z "$far" ] || grep '^gnet-suite: ' "$log" || true
	echo "gnet-suite: $mode mode, $ring: $passed passed, $skipped skipped, exit code $code"
	if [ $code != 0 ]; then
		status=1
		grep -B2 -A12 -E 'Error Trace|^panic:|^fatal error' "$log" | head -120 || true
	elif [ -z "$run" ] && { [ "$passed" != $expected ] || [ "$skipped" != 0 ]; }; then
		echo "gnet-suite: want $expected passed and none skipped" >&2
		status=1
	fi
done
exit $status
