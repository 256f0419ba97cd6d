package netstack

import (
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/netstack/ooo"
)

// eye looks at one direction of a connection: from the link, where segments and
// acknowledgements pass, and from Read, where TCP delivers.
type eye struct {
	mu   sync.Mutex
	flow *ooo.Flow
	wake chan struct{} // has room for one: FPDUs were found
}

func newEye(cfg ooo.Config) *eye {
	return &eye{flow: ooo.NewFlow(0, ooo.New(cfg)), wake: make(chan struct{}, 1)}
}

func (e *eye) received(seq uint32, payload []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flow.Received(seq, payload)
}

// sent may be called with netstack's locks held, so that it calls nothing of netstack.
func (e *eye) sent(ack uint32, blocks []ooo.Block) {
	e.mu.Lock()
	e.flow.Sent(ack, blocks)
	pending := e.flow.Engine.Pending()
	e.mu.Unlock()
	if pending {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

func (e *eye) inOrder(b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.InOrder(b, uptime())
}

func (e *eye) next() (ooo.FPDU, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.Engine.Next()
}

func (e *eye) placed(f ooo.FPDU, octets int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flow.Engine.Placed(f.Position, octets, uptime())
}

func (e *eye) stats() ooo.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.Engine.Stats()
}

var epoch = time.Now()

func uptime() time.Duration { return time.Since(epoch) }
