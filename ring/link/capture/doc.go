// Package capture writes what a link receives and sends to a file, as pcapng, for Wireshark or tcpdump -r. Frames of an offloaded ring go past
// the kernel, so that tcpdump on the interface does not see those received. (VMA: the Offloaded Traffic Sniffer.)
//
//	link ──► Link, which copies each frame of a batch ──► tap, a queue of bytes ──► the file's goroutine ──► disk
//
// The ring's goroutine copies and goes on: it never waits for the disk. What the tap has no room for, because the disk is slower than the
// wire, is not in the file and is counted there (isb_ifdrop of the interface's statistics block) and in the counters of each link, which are of
// its own frames:
//
//	capture.frames      frames in the file, or on their way there
//	capture.written     those of them that are in the file
//	capture.no_room     not in the file: the disk was too slow
//	capture.over_limit  not in the file: it has its size, Config.Limit
//	capture.failed      not in the file: it could not be written
//
// A link without a capture is not wrapped at all. Received frames have the link's stamp where that is the kernel's, else, as those sent, the
// time of their batch. Frames are in the order of each queue and direction; those of several queues are in the order in which they were
// collected, some milliseconds apart.
package capture
