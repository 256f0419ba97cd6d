package iwarp_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// A peer that ends after every single octet of a dialogue, by a FIN and by a reset,
// in both roles: in time every call returns, with the error that the place asks for.
// Only a FIN between two messages is graceful.
//
// Shows: MPA-8-01, MPA-7.1.2-24, DDP-2.3-02, DDP-6.2.2-01, DDP-6.2.2-02
func TestPeerEndsAtEveryOctet(t *testing.T) {
	for _, server := range []bool{false, true} {
		for _, reset := range []bool{false, true} {
			for _, markers := range []bool{false, true} {
				t.Run(fmt.Sprintf("server %t, reset %t, Markers %t", server, reset, markers), func(t *testing.T) {
					for at, all := 0, 1; at <= all; at++ {
						synctest.Test(t, func(t *testing.T) { all = endAt(t, at, server, reset, markers) })
						if t.Failed() {
							t.Fatalf("after octet %d of %d", at, all)
						}
					}
				})
			}
		}
	}
}

// endAt has a peer send the first octets of a dialogue, and then end. It returns the
// length of the whole dialogue.
func endAt(t *testing.T, at int, server, reset, markers bool) (all int) {
	x, y := iwarptest.Pipe(nil)
	defer y.Close()
	cfg := &iwarp.Config{MPA: iwarp.MPAConfig{Markers: markers, RTR: iwarp.RTRNone}}
	started := make(chan accepted, 1)
	go func() {
		start := iwarp.Client
		if server {
			start = iwarp.Server
		}
		c, err := start(testContext(t), x, cfg)
		started <- accepted{c, err}
	}()
	frame := iwarptest.Reply
	if server {
		frame = iwarptest.Request
	} else {
		must(io.ReadFull(y, make([]byte, 24)))(t)
	}
	startup := frame(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil))
	end := func() {
		if reset {
			_ = y.Abort()
		} else {
			_ = y.CloseWrite()
		}
	}
	must(y.Write(startup[:min(at, len(startup))]))(t)
	if at < len(startup) {
		end()
		if err := (<-started).err; err == nil {
			t.Error("startup with a part of a frame")
		}
		return len(startup)
	}
	r := <-started
	check(t, "startup", r.err)
	c := r.c
	defer c.Abort()
	g := newGuarded(64)
	mr := must(c.NewMR(g.mem, iwarp.RemoteWrite|iwarp.RemoteRead))(t)
	defer mr.Close()
	gone := must(c.NewMR(make([]byte, 1), iwarp.RemoteRead))(t)
	defer gone.Close()
	check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend}))

	stag, out := uint32(mr.STag()), iwarptest.Framer{Markers: markers}
	var stream []byte
	whole := []int{0} // lengths of the stream at which a message ends
	for _, segment := range [][]byte{
		iwarptest.Write(stag, 0, []byte("one")),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, []byte("to")),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: 2}, []byte("gether")),
		iwarptest.Tagged(0, false, stag, 8, []byte("two")), iwarptest.Tagged(0, true, stag, 11, nil),
		iwarptest.ReadRequest(1, 7, 0, 3, stag, 0),
		iwarptest.SendInvalidate(2, uint32(gone.STag()), []byte("bye")),
	} {
		stream = append(stream, out.Frame(segment)...)
		if segment[0]&0x40 != 0 {
			whole = append(whole, len(stream))
		}
	}
	sent := at - len(startup)
	must(y.Write(stream[:sent]))(t)
	end()
	var err error
	for err == nil {
		_, err = c.Recv(testContext(t), make([]byte, 64))
	}
	switch graceful := slices.Contains(whole, sent); {
	case reset:
		wantCode(t, err, protocol.MPAConnectionLost, false)
	case !graceful:
		wantCode(t, err, protocol.MPAConnectionLost, false)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Recv: %v, want io.ErrUnexpectedEOF in it", err)
		}
	case server && sent == 0:
		// A responder that has had no message can send none, and it has posted one: the
		// end of the peer's half is told first, and then that.
	case err != io.EOF || c.Err() != nil:
		t.Errorf("after a whole message Recv: %v, Err: %v", err, c.Err())
	}
	go func() { _, _ = io.Copy(io.Discard, y) }()
	_ = c.Close()
	wantDone(t, c)
	collect(t, c.QP().SendCQ(), 1)
	g.check(t)
	return len(startup) + len(stream)
}
