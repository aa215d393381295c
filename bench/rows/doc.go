// Package rows declares what the benchmark measures, one file for each family of rows: the workloads, the peers that are compared and the
// goals. Package harness measures them; package peers declares the peers, which rows name.
//
// To add rows, add them to their family, or write a file with a variable of type harness.Family and run `go generate ./bench/...`, which lists
// it in All.
package rows
