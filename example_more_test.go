package iwarp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/go-iwarp/iwarp"
)

// connected returns the two ends of a connection, for the examples that are not
// about connecting.
func connected(client, server *iwarp.Config) (c, s *iwarp.Conn) {
	ctx := context.Background()
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan *iwarp.Conn, 1)
	go func() {
		r, err := ln.AcceptRequest(ctx)
		if err != nil {
			log.Fatal(err)
		}
		s, err := r.Accept(ctx, server)
		if err != nil {
			log.Fatal(err)
		}
		accepted <- s
	}()
	if c, err = iwarp.Dial(ctx, "tcp", ln.Addr().String(), client); err != nil {
		log.Fatal(err)
	}
	return c, <-accepted
}

// Many connections take their receives from one queue.
func ExamplePD_NewSRQ() {
	ctx := context.Background()
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		log.Fatal(err)
	}
	pd, _ := dev.NewPD()
	srq, _ := pd.NewSRQ(&iwarp.SRQConfig{Depth: 16, MaxShare: 8})
	cq, _ := dev.NewCQ(64)
	bufs := make([][]byte, 16)
	for i := range bufs {
		bufs[i] = make([]byte, 1024)
		if err := srq.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{bufs[i]}}); err != nil {
			log.Fatal(err)
		}
	}
	srq.Arm(4) // an event on srq.Events() when fewer than four are left

	for i := range 3 {
		qp, err := pd.NewQP(&iwarp.QPConfig{RecvCQ: cq, SRQ: srq})
		if err != nil {
			log.Fatal(err)
		}
		client, server := connected(nil, &iwarp.Config{QP: qp})
		if err := client.Send(ctx, fmt.Appendf(nil, "client %d", i)); err != nil {
			log.Fatal(err)
		}
		var done [1]iwarp.Completion
		if _, err := cq.Wait(ctx, done[:]); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", bufs[done[0].ID][:done[0].Length])
		go server.Close()
		client.Close()
	}
	// Output:
	// client 0
	// client 1
	// client 2
}

// A window lets the peer reach a part of a region for one exchange.
func ExampleQP_NewMW() {
	ctx := context.Background()
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		log.Fatal(err)
	}
	pd, _ := dev.NewPD()
	qp, _ := pd.NewQP(nil)
	client, server := connected(nil, &iwarp.Config{QP: qp})
	mr, _ := pd.NewMR(make([]byte, 4096), 0, nil) // no right to anybody
	defer mr.Close()
	mw, _ := qp.NewMW()
	defer mw.Close()

	err = qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{
		MW: mw, MR: mr, Offset: 1024, Length: 16, Access: iwarp.RemoteWrite,
	}})
	if err != nil {
		log.Fatal(err)
	}
	var done [1]iwarp.Completion
	if _, err := qp.SendCQ().Wait(ctx, done[:]); err != nil || done[0].Err != nil {
		log.Fatal(err, done[0].Err)
	}
	// The STag would go to the client in a Send; here both ends are one program.
	if err := client.RDMAWrite(ctx, []byte("in the window"), mw.Remote()); err != nil {
		log.Fatal(err)
	}
	// A Read of the same connection comes after the Write; the window does not allow
	// it, and the server says so.
	err = client.RDMARead(ctx, make([]byte, 4), mw.Remote())
	var perr *iwarp.ProtocolError
	if errors.As(err, &perr) {
		fmt.Println(perr.Code)
	}
	<-server.Done()
	fmt.Printf("%s\n", mr.Bytes()[1024:1037])
	// Output:
	// RDMAP remote protection: access rights violation (0/1/02)
	// in the window
}

// Atomics count in the peer's memory, whoever else is at it.
func ExampleConn_FetchAdd() {
	ctx := context.Background()
	client, server := connected(nil, nil)
	mr, err := server.NewMR(make([]byte, 8), iwarp.RemoteAtomic)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	for range 3 {
		before, err := client.FetchAdd(ctx, mr.Remote(), 10)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(before)
	}
	before, err := client.CompareSwap(ctx, mr.Remote(), 30, 1000)
	fmt.Println(before, err)
	go server.Close()
	client.Close()
	// Output:
	// 0
	// 10
	// 20
	// 30 <nil>
}

// Two programs talk text first, and then turn MPA on.
func ExampleServerRequestFrom() {
	ctx := context.Background()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		r := bufio.NewReader(nc)
		line, _ := r.ReadString('\n')
		fmt.Fprintf(nc, "yes\n") // to what the client has asked
		// What the reader has read ahead belongs to MPA.
		ahead, _ := r.Peek(r.Buffered())
		req, err := iwarp.ServerRequestFrom(ctx, nc, ahead, nil)
		if err != nil {
			log.Fatal(err)
		}
		c, err := req.Accept(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Send(ctx, []byte("you asked: "+line)); err != nil {
			log.Fatal(err)
		}
		c.Close()
	}()

	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(nc, "RDMA?\n")
	if answer, _ := bufio.NewReader(nc).ReadString('\n'); answer != "yes\n" {
		log.Fatal(answer)
	}
	c, err := iwarp.Client(ctx, nc, nil)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := c.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", buf[:m.Length])
	c.Close()
	// Output: you asked: RDMA?
}

// Tenants share a device without being able to starve each other.
func ExampleDevice_NewTenant() {
	dev, err := iwarp.NewDevice(&iwarp.DeviceConfig{MaxMR: 10})
	if err != nil {
		log.Fatal(err)
	}
	backup, _ := dev.NewTenant(iwarp.TenantConfig{Name: "backup", Max: iwarp.Quota{Octets: 1 << 30}})
	_, _ = dev.NewTenant(iwarp.TenantConfig{Name: "orders", Reserve: iwarp.Quota{MRs: 7}})
	pd, _ := backup.NewPD()
	for range 4 {
		if _, err := pd.NewMR(make([]byte, 4096), iwarp.RemoteWrite, nil); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Printf("%+v\n", backup.Use())
	// Output:
	// iwarp: limit reached: memory regions and windows of the device: 3 of 3 in use, 1 asked for
	// {PDs:1 QPs:0 CQs:0 MRs:3 Entries:0 Octets:12288}
}
