package xdp

// NumQueues is how many queues of an interface frames can arrive on, and so how many Open takes when none are named. In the calling
// thread's network namespace.
func NumQueues(name string) (int, error) {
	found, err := findLink(name)
	if err != nil {
		return 0, err
	}
	return queueCount(name, found.Attrs().NumRxQueues), nil
}
