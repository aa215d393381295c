package peers

import (
	"embed"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// Sources are the peers written in C. They include headers of the harness's own programs, beside which they are compiled.
//
//go:embed c/*.c c/*.h
var Sources embed.FS

// All lists the peers. A test holds that every peer declared in this package is on it; `go generate ./bench/...` adds those that are missing at
// the end. Their order is that in which peers on our side take turns.
//
//go:generate go test . -run ^TestEveryPeerIsListed$ -update
var All = []harness.Peer{
	oursUring,
	oursEpoll,
	oursOffload,
	swapUring,
	swapEpoll,
	netPeer,
	gnetPeer,
	netpollPeer,
	cRecv,
	cEpoll,
	cUring,
	cRecvBlock,
	cXDP,
	cMmsg,
	sockperf,
	layerLoop,
	bareLoop,
	stackLoop,
	rawLoop,
	tcpStackLoop,
	layerPublished,
	stackPublished,
}
