// Package stats publishes what a process counts in a file that other processes map, and reads such files. Package xtreme publishes with it;
// xtstat and the collector of metrics read with it.
//
// The counters live in the file: each is an aligned 64-bit word with one writer, which stores it where the event happens. Nothing is copied, so
// a reader sees what was counted while the loop hangs, and after kill -9.
//
//	directory, mode 0700
//	├── sxstat.4711.1893456000123456789        a process: its id, and when its file was made
//	├── sxstat.4711.1893456000123456789.sock   its control socket (File.Serve)
//	└── sxstat.4242.1893450000000000000        one that has ended: the newest eight stay
//
//	file, mode 0600
//	┌──────────────┬─────────────────────────────────────────────────────────────────────┐
//	│ header       │ one page: magic, version, sizes, times, heads of the rings below     │
//	│ description  │ JSON: the program, and where what lies (Description)                 │
//	│ sections     │ blocks of counters: pollers, rings, drops, drivers, sockets          │
//	│ samples      │ a ring of 900 samples of a second each                               │
//	│ journal      │ a ring of 4,096 events                                               │
//	└──────────────┴─────────────────────────────────────────────────────────────────────┘
//
// A file is live while its writer holds a lock on it: the numbers of processes mean nothing in another process namespace. The lock is an open
// file description lock, which ends with the process, however that ends.
//
// All counters stand in one table (Sections) with name, unit, type, help and the kernel's name for the same. Views, JSON, docs/counters.md and
// the description in each file are made from it, so that a reader of another version finds what it knows by name.
package stats
