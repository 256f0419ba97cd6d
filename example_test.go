package iwarp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/go-iwarp/iwarp"
)

// An echo server and its client.
func Example() {
	ctx := context.Background()
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept(ctx)
			if err != nil {
				return // the listener is closed
			}
			go echo(ctx, c)
		}
	}()

	c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := c.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf[:m.Length])
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}

// echo sends back what it receives, until the peer closes.
func echo(ctx context.Context, c *iwarp.Conn) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	for {
		m, err := c.Recv(ctx, buf)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Print(err)
			return
		}
		if err := c.Send(ctx, buf[:m.Length]); err != nil {
			log.Print(err)
			return
		}
	}
}

// connect2 makes a connection of the program with itself, for the examples.
func connect2(ctx context.Context) (client, server *iwarp.Conn) {
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan *iwarp.Conn)
	go func() {
		c, err := ln.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		accepted <- c
	}()
	client, err = iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return client, <-accepted
}

// closeTogether closes both ends of a connection of the program with itself.
func closeTogether(a, b *iwarp.Conn) {
	go a.Close()
	b.Close()
	<-a.Done()
}

// The peer writes into memory of this program, and says so in a message.
func ExampleConn_RDMAWrite() {
	ctx := context.Background()
	writer, reader := connect2(ctx)
	defer closeTogether(writer, reader)

	// The reader registers memory and tells the writer where it is.
	memory := make([]byte, 32)
	mr, err := reader.NewMR(memory, iwarp.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	ad, err := mr.Remote().MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}
	if err := reader.Send(ctx, ad); err != nil {
		log.Fatal(err)
	}

	// The writer writes, and notifies: the octets are there when the message is.
	ad = make([]byte, iwarp.RemoteBufferLen)
	if _, err := writer.Recv(ctx, ad); err != nil {
		log.Fatal(err)
	}
	var to iwarp.RemoteBuffer
	if err := to.UnmarshalBinary(ad); err != nil {
		log.Fatal(err)
	}
	if err := writer.RDMAWrite(ctx, []byte("placed without a receive"), to); err != nil {
		log.Fatal(err)
	}
	if err := writer.SendInvalidate(ctx, nil, to.STag); err != nil {
		log.Fatal(err)
	}

	m, err := reader.Recv(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, access ended: %v\n", memory[:24], m.Invalidated == mr.STag())
	// Output: placed without a receive, access ended: true
}

// A part of the peer's memory is read, without the peer's doing.
func ExampleConn_RDMARead() {
	ctx := context.Background()
	a, b := connect2(ctx)
	defer closeTogether(a, b)
	mr, err := b.NewMR([]byte("0123456789"), iwarp.RemoteRead)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()

	part := make([]byte, 4)
	if err := a.RDMARead(ctx, part, mr.Remote().Slice(3, 4)); err != nil { // mr.Remote() comes in a message, usually
		log.Fatal(err)
	}
	fmt.Printf("%s\n", part)

	// What the region does not allow ends the connection, with the reason.
	if err := a.RDMAWrite(ctx, []byte("x"), mr.Remote()); err == nil {
		err = a.RDMARead(ctx, part, mr.Remote())
		var perr *iwarp.ProtocolError
		fmt.Println(errors.As(err, &perr) && perr.Remote, perr.Code)
	}
	// Output:
	// 3456
	// true DDP tagged buffer: invalid STag (1/1/00)
}

// With verbs: queue pairs that take receives before they are connected, work
// requests and completions.
func ExampleQP() {
	ctx := context.Background()
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		log.Fatal(err)
	}
	newQP := func() *iwarp.QP {
		pd, err := dev.NewPD()
		if err != nil {
			log.Fatal(err)
		}
		qp, err := pd.NewQP(&iwarp.QPConfig{SendDepth: 16, RecvDepth: 16})
		if err != nil {
			log.Fatal(err)
		}
		return qp
	}
	sender, receiver := newQP(), newQP()
	defer sender.Close()
	defer receiver.Close()

	// The receive is there before the connection, so the first message finds it.
	buf := make([]byte, 64)
	if err := receiver.PostRecv(iwarp.RecvWR{ID: 7, SG: [][]byte{buf}}); err != nil {
		log.Fatal(err)
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: dev})
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		r, err := ln.AcceptRequest(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := r.Accept(ctx, &iwarp.Config{QP: receiver}); err != nil {
			log.Fatal(err)
		}
	}()
	if _, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), &iwarp.Config{QP: sender}); err != nil {
		log.Fatal(err)
	}

	if err := sender.PostSend(iwarp.SendWR{
		ID: 1, Op: iwarp.OpSend, SG: [][]byte{[]byte("gathered "), []byte("from two slices")},
	}); err != nil {
		log.Fatal(err)
	}
	for _, cq := range []*iwarp.CQ{sender.SendCQ(), receiver.RecvCQ()} {
		var c [1]iwarp.Completion
		if _, err := cq.Wait(ctx, c[:]); err != nil {
			log.Fatal(err)
		}
		fmt.Println(c[0].ID, c[0].Op, c[0].Status(), c[0].Length)
	}
	fmt.Printf("%s\n", buf[:24])
	// Output:
	// 1 Send success 24
	// 7 Recv success 24
	// gathered from two slices
}

// A listener looks at the peer's Private Data before it accepts or rejects.
func ExampleListener_AcceptRequest() {
	ctx := context.Background()
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			r, err := ln.AcceptRequest(ctx)
			if err != nil {
				return
			}
			if string(r.PrivateData()) != "volume 1" {
				if nc, err := r.Reject(ctx, []byte("no such volume")); err == nil {
					nc.Close()
				}
				continue
			}
			c, err := r.Accept(ctx, &iwarp.Config{PrivateData: []byte("welcome")})
			if err != nil {
				log.Print(err)
				continue
			}
			go echo(ctx, c)
		}
	}()

	for _, volume := range []string{"volume 2", "volume 1"} {
		c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), &iwarp.Config{PrivateData: []byte(volume)})
		var rejected *iwarp.RejectError
		switch {
		case errors.As(err, &rejected):
			fmt.Printf("%s: rejected: %s\n", volume, rejected.PrivateData)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("%s: %s\n", volume, c.ConnectionState().PrivateData)
			c.Close()
		}
	}
	// Output:
	// volume 2: rejected: no such volume
	// volume 1: welcome
}
