package stream

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

// TestConnectAndClose makes and ends many connections: nothing is left of them, neither goroutines nor anything of the
// device.
func TestConnectAndClose(t *testing.T) {
	cycles := 10000
	if testing.Short() || raceEnabled {
		cycles = 300
	}
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Conn: &iwarp.Config{Device: dev}, RecvBuffer: 8192, Credits: minCredits}
	ln, err := Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	served := make(chan error, 1)
	go func() {
		for range cycles {
			c, err := ln.AcceptStream(context.Background())
			if err == nil {
				_, err = io.Copy(c, c)
				_ = c.Close()
				<-c.ended
			}
			if err != nil {
				served <- err
				return
			}
		}
		served <- nil
	}()
	p := make([]byte, 5)
	for i := range cycles {
		c, err := Dial(t.Context(), "tcp", ln.Addr().String(), cfg)
		if err != nil {
			t.Fatal(i, err)
		}
		if i%2 == 0 { // the others say nothing
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		<-c.ended
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	if use := dev.Use(); use.Quota != (iwarp.Quota{}) || use.Held != 0 {
		t.Errorf("the device has %+v in use", use)
	}
	_ = ln.Close()
}
