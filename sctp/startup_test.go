package sctp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// A responder refuses at the direction of its program, with Private Data; a session for which
// there is no room is answered with Terminate, and one that RFC 6581 began by Enhanced Reject.
// Shows: SCTP-6.3-01, SCTP-6.3-02, SCTP-6.4-01, SCTP-5.2.3-02, MPA2-7-01, MPA2-7-02, MPA2-7-06
func TestReject(t *testing.T) {
	for name, revision := range map[string]int{"Initiate": 1, "Enhanced Initiate": 2} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			l := listen(t, nil)
			done := make(chan error, 1)
			go func() {
				r, err := l.AcceptRequest(ctx)
				if err == nil {
					if got := string(r.PrivateData()); got != "please" {
						t.Errorf("Private Data of the request: %q", got)
					}
					_, err = r.Reject(ctx, []byte("no"))
				}
				done <- err
			}()
			cfg := &iwarp.Config{PrivateData: []byte("please"), MPA: iwarp.MPAConfig{Revision: revision}}
			_, err := sctp.Dial(ctx, "udp", l.Addr().String(), cfg)
			var rejected *iwarp.RejectError
			if !errors.As(err, &rejected) || string(rejected.PrivateData) != "no" ||
				rejected.Enhanced != (revision == 2) {
				t.Fatalf("Dial: %v", err)
			}
			if revision == 2 && rejected.RTR == 0 {
				t.Error("Enhanced Reject names no kind of RTR")
			}
			check(t, "Reject", <-done)
		})
	}
}

// What was agreed in startup is as over MPA: RFC 6581 or not, depths, who speaks first.
// Shows: MPA2-7-02, MPA2-7-07
func TestStartupAgrees(t *testing.T) {
	for name, revision := range map[string]int{"RFC 5043": 1, "RFC 6581": 2} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t,
				&iwarp.Config{IRD: 3, ORD: 5, MPA: iwarp.MPAConfig{Revision: revision}}, &iwarp.Config{IRD: 4, ORD: 7})
			x, y := a.ConnectionState(), b.ConnectionState()
			if enhanced := revision == 2; x.Enhanced != enhanced || y.Enhanced != enhanced || x.PeerToPeer != enhanced {
				t.Errorf("%+v, %+v", x, y)
			}
			if !x.CRC || !y.CRC || x.SendMarkers || y.SendMarkers || !x.Initiator || y.Initiator {
				t.Errorf("%+v, %+v", x, y)
			}
			if revision == 2 && (x.ORD != 4 || y.ORD != 3) {
				t.Errorf("ORD %d and %d, want 4 and 3", x.ORD, y.ORD)
			}
			// The responder may speak first.
			check(t, "Send", b.Send(testContext(t), []byte("first")))
			wantRecv(t, a, "first")
			closeBoth(t, a, b)
		})
	}
}

// A responder of RFC 5043 alone answers an Enhanced Initiate with Terminate; it is asked again.
// Shows: SCTP-6.5-02, SCTP-6.5-01
func TestFallBack(t *testing.T) {
	a, b := connect(t, nil, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	if x := a.ConnectionState(); x.Enhanced || x.Revision != 1 {
		t.Errorf("%+v", x)
	}
	closeBoth(t, a, b)
}

// A request beyond those that may wait for the program is answered with Terminate.
// Shows: SCTP-6.4-02, SCTP-5.2.3-06
func TestPendingBound(t *testing.T) {
	ctx := testContext(t)
	client, server := packetConn(t, 0, nil), packetConn(t, 0, nil)
	assoc, l := associate(t, client, server, nil, &iwarp.ListenConfig{MaxPending: 2})
	waiting, cancel := context.WithCancel(ctx)
	ends := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := assoc.Dial(waiting, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
			ends <- err
		}()
	}
	for l.Stats().Waiting < 2 {
		if ctx.Err() != nil {
			t.Fatal("the requests do not come")
		}
	}
	_, err := assoc.Dial(ctx, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	var perr *iwarp.ProtocolError
	if !errors.As(err, &perr) || perr.Section != "RFC 5043 section 6.4" {
		t.Errorf("Dial: %v", err)
	}
	cancel()
	for range 2 {
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v", err)
		}
	}
}

// indicate returns a tap that sets the Adaptation Layer Indication of INIT and INIT ACK, or
// takes it out.
func indicate(code uint32, out bool) func(p []byte) []byte {
	return func(p []byte) []byte {
		if len(p) < 32 || p[12] != 1 && p[12] != 2 {
			return p
		}
		n := 12 + int(binary.BigEndian.Uint16(p[14:]))
		binary.BigEndian.PutUint32(p[n-4:], code) // it is the last parameter
		if out {
			p = p[:n-8]
			binary.BigEndian.PutUint16(p[14:], uint16(len(p)-12))
		}
		sctp.SetChecksum(p)
		return p
	}
}

// Whoever does not indicate DDP has no association: neither the one that asks nor the one
// that answers.
// Shows: SCTP-5.1-01, SCTP-7.1-01, SCTP-7.1-02, SCTP-11.1-01, SCTP-11.1-02, SCTP-11.1-03
func TestOtherIndication(t *testing.T) {
	for name, c := range map[string]struct {
		client, server func([]byte) []byte
		code           uint32
		want           error
	}{
		"the client has another": {client: indicate(7, false)},
		"the client has none":    {client: indicate(0, true)},
		"the server has another": {server: indicate(7, false), want: sctp.ErrOtherUse},
		"the server has none":    {server: indicate(0, true), want: sctp.ErrOtherUse},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := packetConn(t, 0, c.client), packetConn(t, 0, c.server)
			l, err := sctp.NewListener(server, nil, nil)
			check(t, "NewListener", err)
			defer l.Close()
			a, err := sctp.AssociateOver(testContext(t), connected{client, server.LocalAddr()}, nil)
			if err == nil {
				_ = a.Close()
				t.Fatal("an association was made")
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("both have another", func(t *testing.T) {
		client, server := packetConn(t, 0, nil), packetConn(t, 0, nil)
		_, _ = associate(t, client, server, &sctp.Config{Indication: 7}, nil)
	})
}
