package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Over networks of several MTUs, with and without offloads, in order and reordered by the kernel, every octet arrives
// where it should, and no FPDU is longer than a TCP segment.
func TestNetworks(t *testing.T) {
	for _, cfg := range []netpair.Config{
		{},
		{KernelSteering: true},
		{NoOffloads: true},
		{MTU: 1280, NoOffloads: true, KernelSteering: true},
		{MTU: 9000},
	} {
		t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
			pair := netpair.Need(t, &cfg)
			ln := must(pair.B.Listen())(t)
			defer ln.Close()
			ch := make(chan net.Conn, 1)
			go func() {
				nc, _ := ln.Accept()
				ch <- nc
			}()
			var a net.Conn
			check(t, "Dial", pair.A.Do(func() (err error) {
				a, err = net.Dial("tcp", ln.Addr().String())
				return err
			}))
			b := <-ch
			if b == nil {
				t.Fatal("Accept failed")
			}
			x, y := startOn(t, a, b, nil, nil)
			exchangeAll(t, x, y)
			if n := x.Stats().MULPDU; n >= pair.Config.MTU || n < pair.Config.MTU-100 {
				t.Errorf("MULPDU is %d octets, the MTU %d", n, pair.Config.MTU)
			}
		})
	}
}

// exchangeAll writes, reads and sends messages of many lengths.
func exchangeAll(t *testing.T, x, y *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	const size = 1 << 20
	random := rand.NewChaCha8([32]byte{})
	src, dst, back := make([]byte, size), make([]byte, size), make([]byte, size)
	_, _ = random.Read(src)
	mr := must(y.NewMR(dst, iwarp.RemoteRead|iwarp.RemoteWrite))(t)
	for at, n := 0, 1; at < size; at, n = at+n, n*3+1 {
		n = min(n, size-at)
		check(t, "Write", x.RDMAWrite(ctx, src[at:at+n], remoteAt(mr, uint64(at))))
	}
	for at, n := 0, size/2; at < size; at, n = at+n, n/2+1 {
		n = min(n, size-at)
		check(t, "Read", x.RDMARead(ctx, back[at:at+n], remoteAt(mr, uint64(at))))
	}
	if !bytes.Equal(back, src) {
		t.Error("what was written is not what is read")
	}
	for _, n := range []int{0, 1, 1000, 1448, 5000, 64 << 10} {
		sent := make(chan error, 1)
		go func() { sent <- x.Send(ctx, src[:n]) }()
		got, _ := recv(t, y)
		check(t, "Send", <-sent)
		if !bytes.Equal(got, src[:n]) {
			t.Errorf("a message of %d octets is another", n)
		}
	}
}

// A receiver finds what a network does to FPDUs, and says so in a Terminate; what TCP may do is no error.
func TestRelayed(t *testing.T) {
	for fault, want := range map[string]protocol.Code{
		"corrupt:fpdu=2,octet=25":       protocol.MPACRC,
		"corrupt:fpdu=2,octet=15,fix":   protocol.DDPUntaggedMSN, // the MSN of the third Send: 3 becomes 2
		"drop:fpdu=1":                   protocol.DDPUntaggedMSN,
		"reorder:fpdu=1":                protocol.DDPUntaggedMSN,
		"split:fpdu=0,count=-1,size=1":  0,
		"hold:octet=300,for=1ms":        0,
		"split:write=0,count=-1,size=5": 0,
	} {
		t.Run(fault, func(t *testing.T) {
			var f iwarptest.RelayFault
			check(t, "the fault", f.UnmarshalText([]byte(fault)))
			relay := must(iwarptest.NewRelay(&iwarptest.RelayConfig{Faults: []iwarptest.RelayFault{f}}))(t)
			a, ra := netPair(t, "tcp")
			rb, b := netPair(t, "tcp")
			ctx, cancel := context.WithCancel(t.Context())
			joined := make(chan struct{})
			go func() {
				defer close(joined)
				_ = relay.Join(ctx, ra, rb)
			}()
			defer func() {
				cancel()
				<-joined
			}()
			x, y := startOn(t, a, b, nil, nil)
			var err error
			for i := range 5 {
				if x.Send(testContext(t), bytes.Repeat([]byte{byte(i)}, 100)) != nil {
					break
				}
			}
			buf := make([]byte, 100)
			for range 5 {
				if _, err = y.Recv(testContext(t), buf); err != nil {
					break
				}
			}
			if want == 0 {
				check(t, "Recv", err)
				return
			}
			if !errors.Is(err, &protocol.Error{Code: want}) {
				t.Errorf("the receiver says %v, want %v", err, want)
			}
			<-x.Done()
			if err := x.Err(); !errors.Is(err, &protocol.Error{Code: want, Remote: true}) {
				t.Errorf("the sender says %v, want the Terminate of %v", err, want)
			}
		})
	}
}
