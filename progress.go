package iwarp

// Progress is how a connection gets on with what its peer sends: who receives, and
// what a caller does that waits for it. See docs/architecture.md for what each of them
// costs.
type Progress uint8

const (
	// ProgressAdaptive is the default. It spins where that is likely to pay, and parks
	// otherwise. On a connection whose peer has been answering within a few tens of
	// microseconds, the goroutine that waits (in CQ.Wait, Recv, a blocking Read or
	// atomic) reads the socket by itself for up to 50 microseconds before it parks, and
	// so does the receive goroutine where nobody waits. A spin that brings nothing
	// halves the next one. In a process at most half of the processors (GOMAXPROCS)
	// spin at once, at least one; spinning in vain takes at most a twentieth of one
	// processor, and an idle connection none. Threads that want the processor get it
	// between two tries. It is as ProgressParked on what is not a socket of the kernel (TLS, a
	// wrapped connection) and on Windows.
	ProgressAdaptive Progress = iota
	// ProgressParked never spins: a goroutine that waits parks, the receive goroutine
	// is woken by what arrives, and wakes the other one. That takes the least
	// processor time and, where a processor goes to sleep meanwhile, tens of
	// microseconds more for each message that somebody waits for.
	ProgressParked
	// ProgressPolling spins as long as somebody waits: CQ.Poll reads the connection if
	// it has nothing else to give, and CQ.Wait, Recv and the other blocking calls spin
	// until they are done. That takes a processor for each of them. While nobody polls,
	// the connection receives as with ProgressParked. Only on TCP and unix sockets.
	ProgressPolling
)
