package iwarp_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// 2/0/06 and 2/0/07 are errors of startup, which an initiator alone reports, before
// anything else. At any other time they are 0/2/06 and 0/2/07 of Linux siw, which has
// layer and error type in each other's place and here echoes nothing.
// Shows: MPA2-9.1-07, MPA2-9.2-09, EXT-1.1-02
func TestStartupErrorOrSiws(t *testing.T) {
	for _, code := range []protocol.Code{protocol.MPAInsufficientIRD, protocol.MPANoMatchingRTR} {
		for _, c := range []struct {
			name   string
			server bool
			before [][]byte
			want   protocol.Code
		}{
			{name: "by an initiator, first of all", server: true, want: code},
			{
				name: "by an initiator, later", server: true, before: [][]byte{iwarptest.Write(0, 0, nil)},
				want: code - 0x2000 + 0x0200,
			},
			{name: "by a responder", want: code - 0x2000 + 0x0200},
		} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					peer := clientOfPeer
					if c.server {
						peer = serverOfPeer
					}
					conn, p := peer(t, &iwarp.Config{})
					p.Send(append(c.before, iwarptest.Terminate(uint16(code), nil))...)
					p.CloseWrite()
					wantDone(t, conn)
					wantCode(t, conn.Err(), c.want, true)
					if unsupported := errors.Is(conn.Err(),
						errors.ErrUnsupported); unsupported != (c.want == protocol.RDMAPOpcode) {
						t.Errorf("%v: errors.ErrUnsupported: %t", conn.Err(), unsupported)
					}
					if c.want != code {
						wantWords(t, conn.Err(), "sent as 2/0/0", "as Linux siw does")
					}
				})
			})
		}
	}
}
