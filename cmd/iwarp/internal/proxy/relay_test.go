package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// messages is how many messages the responder sends: its FPDUs have the same numbers.
const messages = 8

// exchange has an initiator behind a relay take the messages of a responder, and returns how many came right and how
// each end's connection ended; nil for an end in good order.
func exchange(t *testing.T, flags ...string) (took int, p *proxy, initiator, responder error) {
	t.Helper()
	ctx := cmdtest.Context(t)
	cfg := &iwarp.Config{MPA: iwarp.MPAConfig{RTR: iwarp.RTRNone}}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p = start(t, "127.0.0.1:0", ln.Addr().String(), flags...)
	done := make(chan error, 1)
	go func() { done <- respond(ctx, ln) }()
	c, err := iwarp.Dial(ctx, "tcp", p.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	// Two, since a responder may send no Terminate before it has had an FPDU with a good CRC (RFC 5044 section 7.1.2).
	initiator = errors.Join(c.Send(ctx, []byte("on your marks")), c.Send(ctx, []byte("go")))
	for initiator == nil {
		b := make([]byte, 10)
		var m iwarp.Message
		if m, initiator = c.Recv(ctx, b); initiator == nil {
			if string(b[:m.Length]) != "message "+string(rune('0'+took)) {
				t.Fatalf("message %d is %q", took, b[:m.Length])
			}
			took++
		}
	}
	if errors.Is(initiator, io.EOF) {
		initiator = errors.Join(c.Close(), c.Err())
	}
	return took, p, initiator, <-done
}

// respond sends the messages when it is told to.
func respond(ctx context.Context, ln *iwarp.Listener) error {
	c, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Abort()
	for range 2 {
		if _, err := c.Recv(ctx, make([]byte, 20)); err != nil {
			return err
		}
	}
	for i := range messages {
		if err := c.Send(ctx, []byte("message "+string(rune('0'+i)))); err != nil {
			break // what the peer has against it Close tells
		}
	}
	return errors.Join(c.Close(), c.Err())
}

// Each fault is seen by both ends as what it is: by the one that finds it, and by the other from its Terminate.
func TestRelay(t *testing.T) {
	crcHere := &iwarp.ProtocolError{Code: protocol.MPACRC}
	crcThere := &iwarp.ProtocolError{Code: protocol.MPACRC, Remote: true}
	for _, c := range []struct {
		name, spec           string
		took                 int
		initiator, responder error // nil: in good order; errAny: some error
		faults               string
	}{
		{name: "nothing", took: messages, faults: "0"},
		{name: "delay", spec: "delay:1ms", took: messages, faults: "0"},
		{name: "throttle", spec: "throttle:100K,responder", took: messages, faults: "0"},
		{
			name: "a wrong CRC", spec: "corrupt:fpdu=3,responder",
			took: 3, initiator: crcHere, responder: crcThere, faults: "1",
		},
		{
			name: "a wrong octet", spec: "corrupt:fpdu=3,octet=20,responder",
			took: 3, initiator: crcHere, responder: crcThere, faults: "1",
		},
		{
			name: "of the initiator", spec: "corrupt:fpdu=1,initiator",
			took: 0, initiator: crcThere, responder: crcHere, faults: "1",
		},
		{
			name: "a wrong MSN with a CRC that is right", spec: "corrupt:fpdu=3,octet=15,mask=0xff,fix,responder",
			took: 3, initiator: errAny, responder: errAny, faults: "1",
		},
		{name: "drop", spec: "drop:fpdu=2,responder", took: 2, initiator: errAny, responder: errAny, faults: "1"},
		{name: "reorder", spec: "reorder:fpdu=2,responder", took: 2, initiator: errAny, responder: errAny, faults: "1"},
		{name: "split", spec: "split:fpdu=0,count=-1,size=3,responder", took: messages, faults: `\d+`},
		{name: "hold", spec: "hold:fpdu=2,for=1ms,responder", took: messages, faults: "1"},
		{
			name: "cut within an FPDU", spec: "cut:octet=70,responder",
			took: 1, initiator: errAny, responder: errAny, faults: "1",
		},
		{name: "reset", spec: "reset:fpdu=2,responder", took: 2, initiator: errAny, responder: errAny, faults: "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flags []string
			if c.spec != "" {
				flags = []string{"--fault", c.spec}
			}
			took, p, initiator, responder := exchange(t, flags...)
			if took != c.took && c.spec != "reset:fpdu=2,responder" { // a reset overtakes what came before it
				t.Errorf("%d messages came, want %d", took, c.took)
			}
			for _, e := range []struct {
				who       string
				got, want error
			}{{"initiator", initiator, c.initiator}, {"responder", responder, c.responder}} {
				if e.want == errAny && e.got != nil {
					continue
				}
				if !errors.Is(e.got, e.want) {
					t.Errorf("the %s ended with %v, want %v", e.who, e.got, e.want)
				}
			}
			p.out.Await(t, `"disconnected","connection":1,.*,"faults":`+c.faults+`,`)
			if c.faults != "0" {
				cmdtest.MustContain(t, "output", p.end(t), `{"event":"fault","connection":1,"fault":"`+c.spec+`"}`)
			}
		})
	}
}

var errAny = errors.New("any error")

// With --record both sides are in the file: the FPDU as it was sent, and as it was passed on.
func TestRelayRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.pcapng")
	_, p, _, _ := exchange(t, "--fault", "corrupt:fpdu=3,responder", "--record", name)
	p.out.Await(t, `"disconnected"`)
	p.end(t)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := capture.NewReader(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for {
		var pkt capture.Packet
		if err := r.Next(&pkt); err != nil {
			break
		}
		// Header, payload of 9 octets, PAD and CRC; other FPDUs may be in the packet too.
		at := bytes.Index(pkt.Data, []byte("message 3")) - 20
		if at < 0 {
			continue
		}
		if fpdu := pkt.Data[at : at+36]; bytes.Equal(iwarptest.FixCRC(bytes.Clone(fpdu)), fpdu) {
			good++
		} else {
			bad++
		}
	}
	if good != 1 || bad != 1 {
		t.Errorf("FPDU 3 is recorded %d times right and %d times wrong, want once each", good, bad)
	}
}
