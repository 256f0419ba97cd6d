package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// The transfer is cut into Writes of at most chunkSize octets, of which some are
// posted at once. Their data is a window of random octets that moves on with each
// of them, so that one in the wrong place would show.
const (
	chunkSize   = 4 << 20
	chunksAhead = 8
	chunkShift  = 4093
	maxChunks   = maxDemoBytes / chunkSize
)

// transferTimeout bounds the transfer.
const transferTimeout = 5 * time.Minute

// transfer shows the speed of RDMA Writes, on a connection of its own.
func (d *demo) transfer(ctx context.Context, size int) error {
	d.heading(fmt.Sprintf("Speed: %s by RDMA Write", ui.Amount(size)),
		"On a new connection, in Writes of up to 4 MiB with several under way. The time ends when the server has the "+
			"message that follows the last one; then it compares every octet.")
	ctx, cancel := context.WithTimeoutCause(ctx, transferTimeout, fmt.Errorf("the transfer took more than %v", transferTimeout))
	defer cancel()
	var err error
	if d.client, d.server, err = d.connect(ctx); err != nil {
		return err
	}
	t := &transfer{demo: d, source: randomOctets(), target: make([]byte, size)}
	mr, err := d.server.NewMR(t.target, iwarp.RemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	t.remote = mr.Remote()
	took, err := t.timed(ctx)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	if err := t.verify(); err != nil {
		return err
	}
	d.act(toServer, "%s in %v: %s, all octets right", ui.Amount(size), ui.Round(took), d.Green(ui.Rate(size, took)))
	s := d.client.Stats()
	d.act("", "%s", d.Dim(fmt.Sprintf("%d frames in %d writes to TCP, %d retransmissions; CRC errors at the server: %d",
		s.MPA.FPDUsSent, s.MPA.Writes, s.MPA.Retransmits, d.server.Stats().MPA.CRCErrors)))
	return d.disconnect()
}

// transfer is a large transfer under way.
type transfer struct {
	*demo
	source, target []byte
	remote         iwarp.RemoteBuffer
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

// timed moves the data and gives the time until the server has it.
func (t *transfer) timed(ctx context.Context) (time.Duration, error) {
	bar := ui.Progress{Output: t.Output, Total: len(t.target), Start: time.Now()}
	defer bar.Clear()
	if err := t.writeAll(ctx, &bar); err != nil {
		return 0, err
	}
	if err := t.client.Send(ctx, []byte("that was it")); err != nil {
		return 0, err
	}
	_, _, err := recv(ctx, t.server)
	return time.Since(bar.Start), err
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
