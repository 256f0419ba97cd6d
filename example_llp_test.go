package iwarp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"slices"
	"sync"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
)

// network is one direction of a network that delivers datagrams, the latest first.
type network struct {
	mu      sync.Mutex
	arrived sync.Cond
	waiting []datagram
	order   uint64 // of the next datagram; when over, how many there are
	over    bool
	cut     bool
}

type datagram struct {
	order   uint64
	segment []byte
}

// latestFirst is a Lower Layer Protocol on two such networks. The datagrams of a batch
// arrive in reverse, so that most segments come before others that were sent earlier.
type latestFirst struct {
	out, in *network
	batch   []datagram
	taken   uint64 // segments received
}

func newNetwork() *network {
	n := &network{}
	n.arrived.L = &n.mu
	return n
}

// Window makes it a ddp.Unordered: it says how far ahead segments may come.
func (l *latestFirst) Window() int { return 1024 }

func (l *latestFirst) MULPDU() int               { return 1400 }
func (l *latestFirst) NextULPDU(rest uint64) int { return l.MULPDU() }
func (l *latestFirst) MaySend() bool             { return true }
func (l *latestFirst) Full() bool                { return len(l.batch) >= 100 }
func (l *latestFirst) Buffered() bool            { return len(l.batch) > 0 }

// Queue copies the segment: the memory of a stable one could be referred to until Flush.
func (l *latestFirst) Queue(header []byte, payload [][]byte, stable bool) error {
	segment := slices.Concat(append([][]byte{header}, payload...)...)
	l.batch = append(l.batch, datagram{l.out.order, segment})
	l.out.order++
	return nil
}

func (l *latestFirst) QueueMessage(m ddp.Segments, stable bool) (last bool, err error) {
	for {
		header, payload, last := m.Next(l.NextULPDU(m.Rest()))
		if err := l.Queue(header, payload, stable); err != nil || last || l.Full() {
			return last, err
		}
	}
}

func (l *latestFirst) Flush(wait bool) (done bool, err error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	slices.Reverse(l.batch)
	l.out.waiting = append(l.out.waiting, l.batch...)
	l.batch = nil
	l.out.arrived.Broadcast()
	return true, nil
}

func (l *latestFirst) Receive(fn func(order uint64, segment []byte) error) error {
	n := l.in
	n.mu.Lock()
	for len(n.waiting) == 0 && !n.cut && !(n.over && l.taken == n.order) {
		n.arrived.Wait()
	}
	come := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	if len(come) == 0 {
		return io.EOF // the end comes after the last segment, whatever has overtaken what
	}
	for _, d := range come {
		l.taken++
		if err := fn(d.order, d.segment); err != nil {
			return err
		}
	}
	return nil
}

func (l *latestFirst) CloseWrite() error { l.out.end(false); return nil }
func (l *latestFirst) Close() error      { l.out.end(false); l.in.end(true); return nil }
func (l *latestFirst) Abort() error      { l.out.end(true); l.in.end(true); return nil }

func (n *network) end(cut bool) {
	n.mu.Lock()
	n.over, n.cut = true, n.cut || cut
	n.arrived.Broadcast()
	n.mu.Unlock()
}

// A Lower Layer Protocol of one's own that delivers segments out of order: each is placed
// when it comes, and messages are delivered in the order of sending.
func ExampleNewConn_outOfOrder() {
	there, back := newNetwork(), newNetwork()
	agreed := iwarp.ConnectionState{IRD: 1, ORD: 1} // this transport has no startup
	server, err := iwarp.NewConn(&latestFirst{out: back, in: there}, agreed, nil)
	if err != nil {
		log.Fatal(err)
	}
	agreed.Initiator = true
	client, err := iwarp.NewConn(&latestFirst{out: there, in: back}, agreed, nil)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	target := make([]byte, 100_000)
	region, err := server.NewMR(target, iwarp.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Close()
	if err := client.RDMAWrite(ctx, make([]byte, 100_000), region.Remote()); err != nil {
		log.Fatal(err)
	}
	if err := client.Send(ctx, []byte("written")); err != nil {
		log.Fatal(err)
	}
	msg := make([]byte, 100)
	m, err := server.Recv(ctx, msg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s; placed early: %t\n", msg[:m.Length], server.Stats().DDP.OctetsEarly > 50_000)
	go server.Close()
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: written; placed early: true
}
