// Command eventloop serves a thousand clients from one goroutine: all connections share one
// completion queue and one shared receive queue, and their ends are completions too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/go-iwarp/iwarp"
)

const (
	receives = 1024
	size     = 64
)

func main() {
	if err := run(os.Stdout, 1000, 10); err != nil {
		log.Fatal(err)
	}
}

// server is what the loop works on.
type server struct {
	pd   *iwarp.PD
	cq   *iwarp.CQ
	srq  *iwarp.SRQ
	bufs [receives][size]byte
}

// session is what the loop knows of a client: its QP's Context.
type session struct{ answered int }

func newServer(clients int) (*server, error) {
	device, err := iwarp.NewDevice(nil)
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.pd, err = device.NewPD(); err != nil {
		return nil, err
	}
	if s.cq, err = device.NewCQ(8*clients + receives); err != nil {
		return nil, err
	}
	if s.srq, err = s.pd.NewSRQ(&iwarp.SRQConfig{Depth: receives}); err != nil {
		return nil, err
	}
	for i := range s.bufs {
		err = errors.Join(err, s.post(uint64(i)))
	}
	return s, err
}

// post hands a buffer to whichever client speaks next.
func (s *server) post(id uint64) error {
	return s.srq.PostRecv(iwarp.RecvWR{ID: id, SG: [][]byte{s.bufs[id][:]}})
}

// accept gives each client a QP of the loop's queues.
func (s *server) accept(ctx context.Context, ln *iwarp.Listener) {
	for {
		r, err := ln.AcceptRequest(ctx)
		if err != nil {
			return
		}
		qp, err := s.pd.NewQP(&iwarp.QPConfig{
			SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, SendDepth: 4, Context: &session{}, NotifyEnd: true,
		})
		if err != nil {
			_ = r.Close()
			continue
		}
		// CloseWithPeer: when the client closes, this end does too, and the loop hears of it.
		if _, err := r.Accept(ctx, &iwarp.Config{QP: qp, CloseWithPeer: true}); err != nil {
			_, _ = r.Close(), qp.Close()
		}
	}
}

// loop answers until so many clients have come and gone.
func (s *server) loop(ctx context.Context, clients int) (answers int, err error) {
	for c := range s.cq.All(ctx) {
		client, _ := c.Context.(*session)
		switch {
		case c.Op == iwarp.OpEnd: // the last of its QP
			answers += client.answered
			err = errors.Join(err, c.Err, c.QP.Close())
			if clients--; clients == 0 {
				return answers, err
			}
		case c.Err != nil: // flushed: OpEnd says why
		case c.Op == iwarp.OpRecv:
			// Inline: the octets are copied, so that the buffer can take the next message at once.
			err = errors.Join(err, c.QP.PostSend(iwarp.SendWR{
				Op: iwarp.OpSend, SG: [][]byte{s.bufs[c.ID][:c.Length]}, Inline: true,
			}), s.post(c.ID))
		case c.Op == iwarp.OpSend:
			client.answered++
		}
	}
	return answers, errors.Join(err, ctx.Err())
}

// run has so many clients ask so many times each.
func run(w io.Writer, clients, times int) error {
	ctx := context.Background()
	s, err := newServer(clients)
	if err != nil {
		return err
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	go s.accept(ctx, ln)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			if err := ask(ctx, ln.Addr().String(), times); err != nil {
				log.Print(err)
			}
		})
	}
	answers, err := s.loop(ctx, clients)
	wg.Wait()
	fmt.Fprintf(w, "%d answers to %d clients\n", answers, clients)
	return errors.Join(err, ln.Shutdown(ctx), s.cq.Close(), s.srq.Close(), s.pd.Close())
}

func ask(ctx context.Context, address string, times int) error {
	c, err := iwarp.Dial(ctx, "tcp", address, &iwarp.Config{RecvDepth: 1, SendDepth: 4})
	if err != nil {
		return err
	}
	buf := make([]byte, size)
	for range times {
		if err = c.Send(ctx, []byte("question")); err == nil {
			_, err = c.Recv(ctx, buf)
		}
	}
	return errors.Join(err, c.Close())
}
