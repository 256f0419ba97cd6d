package netpair

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the network is told to be, it is; and a connection between its hosts has segments of the MTU.
func TestPair(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"default":     nil,
		"jumbo":       {MTU: 9000, KernelSteering: true},
		"no offloads": {NoOffloads: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := Need(t, cfg)
			for _, h := range []*Host{p.A, p.B} {
				out, err := h.Output(exec.Command("ip", "-d", "link", "show", device))
				if err != nil {
					t.Fatal(err)
				}
				want := "mtu 1500"
				if p.Config.MTU == 9000 {
					want = "mtu 9000"
				}
				if !strings.Contains(string(out), want) || !strings.Contains(string(out), "LOWER_UP") {
					t.Errorf("no %q, or down: %s", want, out)
				}
			}
			exchange(t, p)
			if n, err := p.Retransmissions(); err != nil || n != 0 {
				t.Errorf("%d retransmissions: %v", n, err)
			}
		})
	}
}

// exchange sends octets from A to B.
func exchange(t *testing.T, p *Pair) {
	t.Helper()
	ln, err := p.B.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const size = 1 << 20
	got := make(chan int64, 1)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer nc.Close()
		n, _ := io.Copy(io.Discard, nc)
		got <- n
	}()
	var nc net.Conn
	if err := p.A.Do(func() (err error) {
		nc, err = net.Dial("tcp", ln.Addr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(make([]byte, size)); err != nil {
		t.Error(err)
	}
	_ = nc.Close()
	if n := <-got; n != size {
		t.Errorf("%d of %d octets came", n, size)
	}
}

// The thread that was on a host is back afterwards, and a closed pair is gone.
func TestClose(t *testing.T) {
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Skip(err)
	}
	p := Need(t, nil)
	var there string
	if err := p.A.Do(func() (err error) {
		there, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	}); err != nil || there == home {
		t.Errorf("on host A: namespace %s, here %s: %v", there, home, err)
	}
	for range 100 {
		done := make(chan string)
		go func() {
			s, _ := os.Readlink("/proc/thread-self/ns/net")
			done <- s
		}()
		if s := <-done; s != home {
			t.Fatalf("a goroutine that is on no host runs in namespace %s, not in %s", s, home)
		}
	}
	failed := errors.New("failed")
	if err := p.B.Do(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Do returns %v", err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.A.Do(func() error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed host: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, mtu := range []int{-1, 1, MinMTU - 1, MaxMTU + 1} {
		if _, err := New(&Config{MTU: mtu}); err == nil || !strings.Contains(err.Error(), "MTU") {
			t.Errorf("MTU %d: %v", mtu, err)
		}
	}
}
