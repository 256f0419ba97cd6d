package iwarp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// What happens below comes up as an error that says what: a reset, an end inside
// an FPDU, a bad CRC. A FIN between FPDUs is no error.
// Shows: DDP-7-01, DDP-3-09, MPA-3-09, DDP-6.2.2-01, MPA-8-06
func TestLowerLayerEnds(t *testing.T) {
	frame := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	bad := bytes.Clone(frame)
	bad[len(bad)-1] ^= 1
	for name, c := range map[string]struct {
		end  func(p *iwarptest.Peer)
		code protocol.Code // 0: none
	}{
		"FIN":   {end: func(p *iwarptest.Peer) { p.CloseWrite() }, code: 0},
		"reset": {end: func(p *iwarptest.Peer) { p.Abort() }, code: protocol.MPAConnectionLost},
		"FIN inside": {
			end: func(p *iwarptest.Peer) { p.SendRaw(frame[:9]); p.CloseWrite() }, code: protocol.MPAConnectionLost,
		},
		"CRC": {end: func(p *iwarptest.Peer) { p.SendRaw(bad); p.CloseWrite() }, code: protocol.MPACRC},
		"empty ULPDU": {
			end:  func(p *iwarptest.Peer) { p.SendRaw(iwarptest.FPDU(nil)); p.CloseWrite() },
			code: protocol.DDPLocalCatastrophic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, p := clientOfPeer(t, nil)
				c.end(p)
				_, err := v.Recv(testContext(t), make([]byte, 10))
				if c.code == 0 {
					if !errors.Is(err, io.EOF) || v.Err() != nil {
						t.Errorf("Recv: %v, connection: %v", err, v.Err())
					}
					check(t, "Close", v.Close())
					return
				}
				wantCode(t, err, c.code, false)
				wantDone(t, v)
				wantCode(t, v.Err(), c.code, false)
			})
		})
	}
}

// When its one stream has ended, gracefully or not, so has the connection below.
// Shows: DDP-3-10, DDP-6.2-02, RDMAP-6.2.1-03, RDMAP-7-01
func TestStreamEndsConnection(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer){
		"graceful": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			c.CloseWrite()
			p.WantEOF("FIN")
			p.CloseWrite()
		},
		"error here": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Send(9, nil))
			p.WantTerminate("MSN", uint16(protocol.DDPUntaggedMSN))
			p.WantEOF("FIN")
			p.CloseWrite()
		},
		"error here, and the peer stays": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Send(9, nil))
			p.WantTerminate("MSN", uint16(protocol.DDPUntaggedMSN))
			p.WantEOF("FIN")
		},
		"Terminate, and the peer stays": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Terminate(0x1203, nil))
			p.WantEOF("FIN")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := clientOfPeer(t, &iwarp.Config{CloseTimeout: time.Second})
				end(t, c, p)
				wantDone(t, c)
				if _, err := c.NetConn().Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("the connection below is still open here: %v", err)
				}
				if _, err := p.Conn.Write(make([]byte, 100_000)); !errors.Is(err, syscall.ECONNRESET) &&
					!errors.Is(err, syscall.EPIPE) {
					// An octet to an end that has gone: the second Write at the latest fails.
					if _, err = p.Conn.Write(make([]byte, 100_000)); err == nil {
						t.Errorf("the connection below is still open for the peer")
					}
				}
			})
		})
	}
}
