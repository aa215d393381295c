GO ?= go

.PHONY: all test race lint bench bench-quick gameday gaps sockperf gnet-suite slow-reader redis https interop seeds mutants torture vm vm-matrix

all: lint test

test:
	$(GO) test ./...

race:
	$(GO) test -race -timeout 8m ./...

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -C interop ./...
	$(GO) vet -C interop/netstack ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

bench:
	$(GO) run ./bench

bench-quick:
	$(GO) run ./bench -quick

gameday:
	SOCKETXTREME_LONG=1m $(GO) test -count=1 -timeout 20m -run '^TestXtstatFindsTheCause$$' -v ./scripts/gameday

# All rows, or some: make gaps ROW=timers; make gaps ROW='(timers|posted_work)$$'. Each prints how many of 20 were right.
ROW ?= .
gaps:
	SOCKETXTREME_LONG=1m $(GO) test -count=1 -timeout 10m -run '^TestGapsAreNamed$$/^$(ROW)' -v ./xtreme

sockperf:
	scripts/sockperf.sh

gnet-suite:
	scripts/gnet-suite.sh

redis:
	scripts/redis.sh

slow-reader:
	scripts/slow-reader.sh

https:
	scripts/https.sh

seeds:
	$(GO) test -count=1 -timeout 60m -run '^TestSeeds$$' ./tcp/tcptest -v -seeds=10000
	$(GO) test -count=1 -timeout 60m -run 'Seeds$$' ./simnet -v -seeds=5000

torture:
	$(GO) test -count=1 -timeout 60m ./ring/offload/torture -v -seeds=700

interop:
	go test -C interop -count=1 -v ./...
	go test -C interop/netstack -count=1 -v ./... -seeds=100

mutants:
	$(GO) test -count=1 -timeout 60m -run '^TestMutants$$' ./tcp/tcptest -v -mutants

# Tests in a virtual machine with a kernel of Debian: make vm KERNEL=6.1 [PACKAGES=./ring/uring]. scripts/vm.sh says what it needs.
PACKAGES ?= ./buffers ./internal/... ./ring/... ./xtreme ./reactor/... ./extra_api ./udp ./tcp/... ./feed/... ./conf ./stats/... ./cmd/... ./examples/...
vm:
	scripts/vm.sh $(KERNEL) $(PACKAGES)

# All that is run in virtual machines, cell by cell: what has passed with this tree is not run again. docs/platforms.md has what came of it.
# make vm-matrix CELLS="6.1 6.12/kernel"; go run ./scripts/vm/matrix -list prints the cells.
vm-matrix:
	$(GO) run ./scripts/vm/matrix $(CELLS)
