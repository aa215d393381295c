// Package harness measures peers beside each other: it starts their processes, lets them take turns, and judges what the clients read. The
// program bench gives it a Registry of peers and rows; of these it knows what their declarations say.
//
//	registry, peer, row, workload, metric   what is declared
//	run, round                              a run: case after case, round after round, turn after turn
//	compile, process, external, place, network   how programs are built and started, on which CPU, in which network namespace
//	client                                  the load generators in C, and their command lines
//	reading, outcome, judge, stats, report  from what a client printed to a row of the result
//	message, serverflags                    what servers inside this binary share
//	meter, histogram, window                what clients inside this binary share
package harness
