// Package peers declares the programs that the benchmark compares, one file each: what a peer can do, how it is built and started, and, where
// it is inside this binary, the program itself. C sources are beside, in folder c. Package harness runs them; package rows names them.
//
// To add a peer, write a file with a variable of type harness.Peer and run `go generate ./bench/...`, which lists it in All.
package peers
