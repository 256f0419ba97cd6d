package ddp

// Segments is a message that is cut into segments on its way: see [Outgoing.Next].
type Segments = interface {
	// Rest is how long the next segment would be with all that is left, in octets.
	Rest() uint64
	// Next cuts off the next segment, of at most so many octets.
	Next(mulpdu int) (header []byte, payload [][]byte, last bool)
}

// LLP is the Lower Layer Protocol that carries DDP segments: reliable, with
// segment boundaries kept and a digest at least as strong as CRC32c over each
// segment (https://www.rfc-editor.org/rfc/rfc5041#section-3). MPA over TCP and
// the SCTP adaptation are such layers; this package imports neither.
//
// Two goroutines may use an LLP at once: one that sends (NextULPDU, MaySend,
// Queue, QueueMessage, Full, Buffered, Flush, CloseWrite) and one that calls Receive.
// Close and Abort may be called from any goroutine at any time, and end the
// others' waits.
type LLP interface {
	// NextULPDU is how long in octets the next segment of a message may be, header
	// included: what the LLP takes at the moment (its MULPDU), or less where it gains
	// from that, as MPA does when an FPDU ends with a TCP segment. rest is how long it
	// would be with all that is left of the message. It may change from call to call. A
	// segment that has been queued is never cut again.
	NextULPDU(rest uint64) int

	// MaySend is false as long as the LLP must not send: an MPA responder is
	// silent until one valid FPDU has come in
	// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2). It turns true during
	// Receive and never back.
	MaySend() bool

	// Queue adds one segment to the batch that is being built. The header is
	// copied. If stable is false the payload's memory may change at any time and
	// is copied before its digest is taken; if it is true the LLP may refer to the
	// memory until Flush reports done, and it must not change until then.
	//
	// Queue and QueueMessage run under a guard: where payload memory is not there (a
	// mapped file that was truncated), the LLP panics, and has to leave its batch as it
	// was before that segment, whose message fails then. An LLP that looks at the
	// memory later, in Flush, has to cope with that by itself.
	Queue(header []byte, payload [][]byte, stable bool) error
	// QueueMessage is Queue for one segment of m after the other, each as long as
	// NextULPDU says, until the message has ended, which last reports, or the
	// batch is Full; for one segment at least. What is the same for all of them is
	// looked at once.
	QueueMessage(m Segments, stable bool) (last bool, err error)
	// Full reports that the batch should be flushed before more is queued.
	Full() bool
	// Buffered reports that something is queued, or was written only in part.
	Buffered() bool
	// Flush writes the batch. With wait it blocks until all octets have been
	// taken; without, it writes what goes out at once and gives false, nil when
	// octets are left, for which it is to be called again.
	Flush(wait bool) (done bool, err error)

	// Receive blocks until octets arrive and calls fn for every whole segment
	// among them. The segment's octets are valid during the call only, and fn does
	// not change them. order is the number of the segment in the order of sending,
	// from 0; an LLP that keeps order counts.
	//
	// Nothing goes to fn whose digest is wrong, or whose place in the order is not
	// certain: what fn gets is placed. Each segment is handed up at least once,
	// sooner or later: what was lost is sent again below. One that is handed up
	// again is dropped where the LLP is [Unordered], and must not be where it is not.
	//
	// Receive returns [io.EOF] when the peer has ended its half and every segment
	// that it sent has been handed up, and a *protocol.Error when the LLP has failed.
	// An error from fn stops it and is returned as it is; Receive is then called
	// again, until io.EOF, so that the peer's last segments do not stand in the way
	// of its end.
	Receive(fn func(order uint64, segment []byte) error) error

	// CloseWrite ends this end's half of the stream gracefully: what was flushed
	// still arrives, and receiving goes on. It does not wait for the peer.
	// [errors.ErrUnsupported] says that only Close can end it.
	CloseWrite() error
	// Close releases the connection.
	Close() error
	// Abort ends the connection at once, with a reset where there is one.
	Abort() error
}

// Unordered is an [LLP] that hands up segments as they arrive, before those that were
// sent earlier and are missing: SCTP with unordered delivery
// (https://www.rfc-editor.org/rfc/rfc5043#section-10), or MPA that finds FPDUs behind a
// hole of the TCP stream (https://www.rfc-editor.org/rfc/rfc5044#section-6). They are placed
// at once; messages are delivered in the order of sending all the same
// (https://www.rfc-editor.org/rfc/rfc5041#section-5.3).
type Unordered interface {
	LLP
	// Window is asked once, before the first segment: how far ahead segments may come. One
	// whose order is Window or more after that of the first one missing is an error of
	// the peer's, and ends the stream. At most [MaxWindow]; 0 says that this connection
	// keeps the order after all.
	Window() int
}

// Carrier is an [LLP] that counts what it carries.
type Carrier interface {
	// Carried returns the counts. Any goroutine may call it.
	Carried() Carried
}

// Carried are counts of an [LLP], since its start, and its size at the moment.
type Carried struct {
	SegmentsSent, SegmentsReceived uint64
	OctetsSent, OctetsReceived     uint64 // of these segments: sent ones count when they have left this end's queue
	MULPDU                         int    // octets of the largest segment, as last used
}
