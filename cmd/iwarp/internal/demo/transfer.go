package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// The transfer is cut into Writes of at most chunkSize octets, of which some are
// posted at once. Their data is a window of random octets that moves on with each
// of them, so that one in the wrong place would show.
const (
	chunkSize   = 4 << 20
	chunksAhead = 8
	chunkShift  = 4093
	maxChunks   = maxDemoBytes / chunkSize
	tcpRead     = 256 << 10 // octets of a read of plain TCP: the fastest that Go was found to do
)

const (
	// transferTimeout bounds the transfers.
	transferTimeout = 5 * time.Minute
	// rounds is how often each of the two is timed, in turn.
	rounds = 3
)

// transfer shows the speed of RDMA Writes beside that of plain TCP, on connections
// of their own.
func (d *demo) transfer(ctx context.Context, size int) error {
	d.heading(fmt.Sprintf("Speed: %s by RDMA Write, and by plain TCP", ui.Amount(size)),
		"Both move the same octets between the same memory, in turn. RDMA Writes of up to 4 MiB, several in flight: "+
			"the time "+
			"ends when the server has the message that follows the last one. Then every octet is compared.")
	ctx, cancel := context.WithTimeoutCause(ctx, transferTimeout,
		fmt.Errorf("the transfer took more than %v", transferTimeout))
	defer cancel()
	t := &transfer{demo: d, source: randomOctets(), target: make([]byte, size)}
	if err := t.connectBoth(ctx); err != nil {
		return err
	}
	defer t.tcp.close()
	mr, err := d.server.NewMR(t.target, iwarp.RemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	t.remote = mr.Remote()
	var rdma, plain []time.Duration
	for range rounds {
		if plain, err = t.measure(ctx, plain, t.overTCP); err != nil {
			return fmt.Errorf("transfer by plain TCP: %w", err)
		}
		if rdma, err = t.measure(ctx, rdma, t.overRDMA); err != nil {
			return fmt.Errorf("transfer: %w", err)
		}
	}
	t.report(median(plain), median(rdma))
	return d.disconnect()
}

// report tells of the medians.
func (t *transfer) report(plain, rdma time.Duration) {
	size := len(t.target)
	t.act(toServer, "plain TCP    %s in %v: %s", ui.Amount(size), ui.Round(plain), ui.Rate(size, plain))
	t.act(toServer, "RDMA Writes  %s in %v: %s, all octets right", ui.Amount(size), ui.Round(rdma),
		t.Green(ui.Rate(size, rdma)))
	t.act("", "%.2f times as fast as plain TCP (medians of %d, congestion control: %s)",
		plain.Seconds()/rdma.Seconds(), rounds, t.congestion)
	s := t.client.Stats()
	t.act("", "%s", t.Dim(fmt.Sprintf("%d frames in %d writes to TCP, %d retransmissions; CRC errors at the server: %d",
		s.MPA.FPDUsSent, s.MPA.Writes, s.MPA.Retransmits, t.server.Stats().MPA.CRCErrors)))
	t.prose("\"iwarp bench\" shows more: it gives each end a process of its own, and what it moves again and again " +
		"stays in " +
		"the processor's caches.")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// transfer is the large transfers under way.
type transfer struct {
	*demo
	source, target []byte
	remote         iwarp.RemoteBuffer
	tcp            tcpPair
	congestion     string // control, of all sockets
}

// connectBoth makes a connection with iWARP and one without.
func (t *transfer) connectBoth(ctx context.Context) (err error) {
	t.congestion = "the system's own"
	if t.tcp, err = newTCPPair(ctx); err != nil {
		return err
	}
	for _, nc := range []net.Conn{t.tcp.client, t.tcp.server} {
		if name := tcpsock.SetUnpaced(nc); name != "" {
			t.congestion = name
		}
	}
	cfg := t.cfg
	t.cfg = cfg.Clone()
	t.cfg.Wrap = func(nc net.Conn) net.Conn {
		tcpsock.SetUnpaced(nc)
		if cfg.Wrap != nil { // it is recorded
			nc = cfg.Wrap(nc)
		}
		return nc
	}
	t.client, t.server, err = t.connect(ctx)
	t.cfg = cfg
	if err != nil {
		t.tcp.close()
	}
	return err
}

func randomOctets() []byte {
	b := make([]byte, chunkSize+maxChunks*chunkShift)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

// chunk returns the data of Write i and where it goes.
func (t *transfer) chunk(i int) (data []byte, at int) {
	at = i * chunkSize
	n := min(chunkSize, len(t.target)-at)
	return t.source[i*chunkShift:][:n], at
}

func (t *transfer) chunks() int { return (len(t.target) + chunkSize - 1) / chunkSize }

// measure appends the time of one transfer to times. The target is cleared before:
// its octets are those of this transfer, and its pages are there, as a NIC's are
// once they are registered.
func (t *transfer) measure(
	ctx context.Context, times []time.Duration, move func(context.Context, *ui.Progress) error,
) ([]time.Duration, error) {
	clear(t.target)
	bar := ui.Progress{Output: t.Output, Total: len(t.target), Start: time.Now()}
	defer bar.Clear()
	if err := move(ctx, &bar); err != nil {
		return times, err
	}
	times = append(times, time.Since(bar.Start))
	return times, t.verify()
}

// overRDMA moves the data by RDMA Writes, and returns when the server has it.
func (t *transfer) overRDMA(ctx context.Context, bar *ui.Progress) error {
	if err := t.writeAll(ctx, bar); err != nil {
		return err
	}
	if err := t.client.Send(ctx, []byte("that was it")); err != nil {
		return err
	}
	_, _, err := recv(ctx, t.server)
	return err
}

// writeAll keeps Writes posted until all are complete.
func (t *transfer) writeAll(ctx context.Context, bar *ui.Progress) error {
	posted, completed, moved := 0, 0, 0
	cs := make([]iwarp.Completion, chunksAhead)
	for completed < t.chunks() {
		for ; posted < t.chunks() && posted-completed < chunksAhead; posted++ {
			if err := t.post(posted); err != nil {
				return err
			}
		}
		n, err := t.client.QP().SendCQ().Wait(ctx, cs)
		if err != nil {
			return err
		}
		for _, c := range cs[:n] {
			if c.Err != nil {
				return c.Err
			}
			moved += int(c.Length)
		}
		completed += n
		bar.Show(moved)
	}
	return nil
}

// post posts Write i.
func (t *transfer) post(i int) error {
	data, at := t.chunk(i)
	return t.client.QP().PostSend(iwarp.SendWR{
		ID: uint64(i), Op: iwarp.OpWrite, SG: [][]byte{data},
		Remote: t.remote.Slice(uint64(at), uint64(len(data))),
	})
}

// verify compares all octets.
func (t *transfer) verify() error {
	for i := range t.chunks() {
		if data, at := t.chunk(i); !bytes.Equal(data, t.target[at:at+len(data)]) {
			return errors.New("the server has wrong data: " + ui.Compare(data, t.target[at:at+len(data)]).Error())
		}
	}
	return nil
}

// overTCP moves the data over plain TCP, and returns when the server has it.
func (t *transfer) overTCP(ctx context.Context, bar *ui.Progress) error {
	stop := context.AfterFunc(ctx, t.tcp.close)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		for i := range t.chunks() {
			data, _ := t.chunk(i)
			if _, err := t.tcp.client.Write(data); err != nil {
				t.tcp.close() // the reader waits for what does not come
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var err error
	for at := 0; at < len(t.target) && err == nil; bar.Show(at) {
		var n int
		n, err = t.tcp.server.Read(t.target[at:min(at+tcpRead, len(t.target))])
		at += n
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		t.tcp.close() // the writer waits for room
	}
	serr := <-sent
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(serr, err)
}

// tcpPair is a plain TCP connection over loopback.
type tcpPair struct{ client, server net.Conn }

func newTCPPair(ctx context.Context) (p tcpPair, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return p, err
	}
	defer ln.Close()
	if p.client, err = new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String()); err != nil {
		return p, err
	}
	// A connection that has been dialed is in the listener's queue.
	if p.server, err = ln.Accept(); err != nil {
		_ = p.client.Close()
	}
	return p, err
}

func (p tcpPair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}
