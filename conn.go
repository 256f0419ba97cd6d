package iwarp

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Conn is an iWARP connection: a QP with a peer. All methods may be called from
// any goroutine.
//
// The simple calls Send, Recv, RDMAWrite and RDMARead block until their work is done.
// Work requests posted to the QP run beside them, in one order with them.
//
// One goroutine receives for as long as the peer may send, beside callers that wait
// (see Config.Progress); a second one runs only while there is more to send than the
// network takes at once.
type Conn struct {
	cfg *Config
	lease
	llp    ddp.LLP
	under  under
	trace  *tracer // nil: none
	stream *rdmap.Stream
	agreed ConnectionState

	send     sendToken
	sent     bool   // the send half has ended; the token holder's
	sendLoop func() // bound once, so that starting it allocates nothing
	place    func(order uint64, seg []byte) error
	came     int      // octets of the segments of one receive; the receive owner's
	urgent   bool     // and there is somebody who waits for what that has brought about
	poller   *poller  // nil: only the receive goroutine receives
	self     [1]*Conn // itself, as a list
	nudge    *nudger  // nil: never
	waiters  sync.Pool
	released atomic.Bool   // Release was here: what the peer sends is thrown away
	unplaced chan struct{} // closed when nothing is placed any more
	halted   bool          // unplaced is closed; the receive owner's
	late     lateMessage   // one that waits for a receive; the receive owner's

	life
}

// newConn puts a stream on an LLP whose startup is over, and starts it.
//
// It takes q over, and gives it back on error.
func newConn(cfg *Config, q lease, llp ddp.LLP, st ConnectionState, initiator bool, id uint64) (*Conn, error) {
	c := &Conn{
		lease: q, cfg: cfg, llp: llp, under: lookUnder(llp), agreed: st, unplaced: make(chan struct{}),
	}
	c.life.init(cfg.Logger, id)
	c.trace = newTracer(c)
	c.sendLoop, c.place = c.transmitAll, c.placeSegment
	c.waiters.New = func() any { return &waiter{done: make(chan struct{}, 1)} }
	rc := rdmap.Config{
		Table: cfg.Device.table, Peer: ddp.Peer{PD: c.qp.pd.id, Stream: c.qp.stream},
		Recv: c.qp.queues, Handler: (*handler)(c.qp), Bound: &cfg.Device.held,
		IRD: st.IRD, ORD: st.ORD, SendDepth: c.qp.cfg.SendDepth, MaxSGE: c.qp.cfg.MaxSGE, MaxInline: maxInline,
		Initiator: initiator, RDMAC: st.RDMAC, Batched: true,
		Unordered: c.under.window > 0, Window: c.under.window, Clock: uptime,
	}
	if st.PeerToPeer {
		rc.RTR = st.RTR
	}
	if c.under.mpa != nil {
		rc.MaxSegment = cfg.MPA.maxSegment()
	}
	if _, ok := llp.(*mpa.Conn); !ok {
		c.place = c.placeGuarded
	}
	c.stream = rdmap.NewStream(rc)
	if err := c.qp.attach(c); err != nil {
		q.give()
		return nil, err
	}
	c.qp.trace.Store(c.trace)
	cfg.Device.connects.Add(1)
	cfg.Device.census.add(c)
	c.nudge = newNudger(c)
	return c, nil
}

// start lets octets flow.
func (c *Conn) start() {
	c.cfg.startupEnded(StartupTrace{
		ID: c.ID(), Initiator: c.agreed.Initiator, Local: c.LocalAddr(), Remote: c.RemoteAddr(),
		Began: c.startup, Conn: c,
	})
	c.events.log(slog.LevelInfo, "iwarp connection", "local", c.LocalAddr(), "remote", c.RemoteAddr(), "state",
		c.agreed)
	if c.poller = newPoller(c); c.poller != nil {
		c.self[0] = c
		c.qp.sendCQ.addPolled(c)
		c.qp.recvCQ.addPolled(c)
	}
	c.bind()
	go c.receiveLoop()
	c.kick()
}

// lease is a connection's QP, and whether it and its domain are the
// connection's own.
type lease struct {
	qp           *QP
	ownQP, ownPD bool
}

// takeQP finds or makes the QP. It is called before startup, so that a device
// that has none left is known when the peer can still be told.
func (c *Config) takeQP() (lease, error) {
	if c.QP != nil {
		return lease{qp: c.QP}, c.QP.usable()
	}
	l := lease{ownQP: true}
	pd := c.PD
	if pd == nil {
		var err error
		if pd, err = c.Device.NewPD(); err != nil {
			return lease{}, err
		}
		l.ownPD = true
	}
	qp, err := pd.newQP(&QPConfig{SendDepth: c.SendDepth, RecvDepth: c.RecvDepth},
		newInbox(c.RecvDepth, c.RecvSize, &c.Device.held))
	if err != nil {
		if l.ownPD {
			_ = pd.Close()
		}
		return lease{}, err
	}
	l.qp = qp
	return l, nil
}

// give gives back what is the connection's own. The domain stays until the
// program has closed its regions.
func (l *lease) give() {
	if l.ownPD {
		l.qp.pd.auto.Store(true)
	}
	if l.ownQP {
		l.qp.release()
	}
	if l.ownPD {
		_ = l.qp.pd.Close()
	}
}

// QP returns the connection's queue pair.
func (c *Conn) QP() *QP { return c.qp }

// PD returns the connection's protection domain.
func (c *Conn) PD() *PD { return c.qp.pd }

// NewMR makes a region that the peer of this connection, and nobody else,
// reaches, and that it may invalidate. Close it when it is not needed any more,
// at the latest when the connection has ended. After that it may fail, with
// [net.ErrClosed].
func (c *Conn) NewMR(buf []byte, access Access) (*MR, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	// Rule: DDP-8.2-03
	return c.qp.pd.NewMR(buf, access, &MROptions{QP: c.qp})
}

// NetConn returns the connection below, nil if there is none. Octets must not be
// read from it or written to it.
func (c *Conn) NetConn() net.Conn { return c.under.nc }

// LocalAddr returns this end's address, nil if there is none.
func (c *Conn) LocalAddr() net.Addr {
	if c.under.local == nil {
		return nil
	}
	return c.under.local()
}

// RemoteAddr returns the peer's address, nil if there is none.
func (c *Conn) RemoteAddr() net.Addr {
	if c.under.remote == nil {
		return nil
	}
	return c.under.remote()
}

// post checks a work request, reserves its completion and queues it. With w it has
// none: w hears of its end.
func (c *Conn) post(wr *SendWR, w *waiter) error {
	switch {
	case w != nil:
		return c.stream.Post(wr, w)
	case wr.Op == OpBind:
		return c.postBind(wr)
	}
	return c.enqueue(wr)
}

// enqueue reserves a request's completion and queues it.
func (c *Conn) enqueue(wr *SendWR) error {
	cq := c.qp.SendCQ()
	if err := cq.reserve(1); err != nil {
		if c.stream.Outstanding() >= c.qp.cfg.SendDepth {
			return ErrSendQueueFull // the plainer reason, with a queue of just that depth
		}
		return err
	}
	if err := c.stream.Post(wr, nil); err != nil {
		cq.release(1)
		return err
	}
	return nil
}

// postBatch is how many work requests take their locks together.
const postBatch = 16

// postAll is post for a list, as far as it goes.
func (c *Conn) postAll(wrs []SendWR) (posted int, err error) {
	cq := c.qp.SendCQ()
	for posted < len(wrs) {
		n := 0
		// What has to be prepared goes alone.
		for n < min(len(wrs)-posted, postBatch) && wrs[posted+n].Op != OpBind {
			n++
		}
		if n <= 1 || cq.reserve(n) != nil {
			// One by one it shows which has no entry, and why.
			if err := c.post(&wrs[posted], nil); err != nil {
				return posted, err
			}
			posted++
			continue
		}
		k, err := c.stream.PostAll(wrs[posted : posted+n])
		cq.release(n - k)
		posted += k
		if err != nil {
			return posted, err
		}
	}
	return posted, nil
}

// sendToken says who owns the send side. Work that comes up while somebody owns
// it is noted, so that the owner looks once more before it lets go.
type sendToken struct{ state atomic.Int32 }

const (
	sendIdle = iota
	sendOwned
	sendOwnedMore
)

// acquire takes the token, or leaves a note for its owner.
func (t *sendToken) acquire() bool {
	for {
		switch {
		case t.state.CompareAndSwap(sendIdle, sendOwned):
			return true
		case t.state.CompareAndSwap(sendOwned, sendOwnedMore), t.state.Load() == sendOwnedMore:
			return false
		}
	}
}

// release lets the token go; it is false, and the token still owned, if there
// was a note.
func (t *sendToken) release() bool {
	if t.state.CompareAndSwap(sendOwned, sendIdle) {
		return true
	}
	t.state.Store(sendOwned)
	return false
}

// kick sends what is due, as far as that goes without blocking, and leaves the
// rest to a goroutine.
func (c *Conn) kick() {
	c.nudge.look()
	if c.send.acquire() && !c.transmit(false) {
		go c.sendLoop()
	}
}

// transmitAll is the send goroutine. It has the token and lives while there is
// something to send.
func (c *Conn) transmitAll() {
	c.transmit(true)
	c.trace.flush()
}

// transmit works off the send side. It is false, with the token kept, when it
// may not wait and has to.
func (c *Conn) transmit(wait bool) bool {
	for {
		progress, err := c.stream.Transmit(c.llp, wait)
		if c.stream.Failed() {
			c.streamFailed(err != nil)
		}
		switch progress {
		case rdmap.Finished:
			c.sendEnded(err)
			fallthrough
		case rdmap.Idle:
			if c.send.release() {
				return true
			}
		case rdmap.Blocked, rdmap.More:
			if !wait {
				return false
			}
		}
	}
}
