package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/live"
)

// device returns one with a connection that stands, which has sent so many octets, and one
// that was aborted.
func device(t *testing.T, octets int) *iwarp.Device {
	t.Helper()
	d, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			s, err := ln.Accept(t.Context())
			if err != nil {
				return
			}
			defer s.Abort()
		}
	}()
	for i := range 2 {
		c, err := iwarp.Dial(t.Context(), "tcp", ln.Addr().String(), &iwarp.Config{Device: d})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abort)
		if i == 0 {
			c.Abort()
			<-c.Done()
		} else if err := c.Send(t.Context(), make([]byte, octets)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestTake(t *testing.T) {
	s := live.Take(device(t, 100), nil, device(t, 20))
	if s.Format != live.Format || s.PID != os.Getpid() || s.Program == "" || s.LeftOut != 0 {
		t.Errorf("%+v", s)
	}
	if n := s.Totals; n.Live != 2 || n.Connections != 4 || n.EndedInError != 2 || n.PayloadSent != 120 {
		t.Errorf("%+v", n)
	}
	if len(s.Errors) != 1 || s.Errors[0].Count != 2 || s.Errors[0].By != "program" {
		t.Errorf("%+v", s.Errors)
	}
	if len(s.Conns) != 2 || s.Conns[0].ID >= s.Conns[1].ID {
		t.Fatalf("%+v", s.Conns)
	}
	if c := s.Conns[0]; c.Remote == "" || c.Local == "" || !c.Initiator || c.PayloadSent != 100 || c.MULPDU == 0 ||
		c.Began.IsZero() {
		t.Errorf("%+v", c)
	}
}

func TestHandler(t *testing.T) {
	h := live.Handler(device(t, 9))
	for method, code := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/anywhere", nil))
		if w.Code != code {
			t.Errorf("%s: %d", method, w.Code)
		}
		var s live.Snapshot
		if method == http.MethodGet && (json.Unmarshal(w.Body.Bytes(), &s) != nil || len(s.Conns) != 1) {
			t.Errorf("%s", w.Body)
		}
	}
}

// get asks who offers at path.
func get(t *testing.T, path string) (*live.Snapshot, error) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := c.Get("http://localhost" + live.Endpoint)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var s live.Snapshot
	return &s, json.NewDecoder(resp.Body).Decode(&s)
}

// A process offers once at a time, at a socket of its user's only, and leaves nothing.
func TestOffer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path := live.Path(os.Getpid())
	if runtime.GOOS != "windows" {
		if err := os.WriteFile(path, nil, 0o644); err != nil { // of a process before
			t.Fatal(err)
		}
	}
	d := device(t, 7)
	for range 2 {
		o, err := live.Offer(d)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := get(t, o.Path()); err != nil || s.Totals.PayloadSent != 7 || o.Path() != path {
			t.Errorf("%+v, %v at %s", s, err, o.Path())
		}
		if fi, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || fi.Mode().Perm() != 0o600) {
			t.Errorf("%v, %v", fi, err)
		}
		if _, err := live.Offer(d); err == nil {
			t.Error("a second offer beside the first")
		}
		if s, err := get(t, path); err != nil {
			t.Errorf("after a second offer: %+v, %v", s, err)
		}
		if err, again := o.Close(), o.Close(); err != nil || again != nil {
			t.Errorf("Close: %v, %v", err, again)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); runtime.GOOS != "windows" && len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
	var none *live.Offering
	if none.Close() == nil {
		t.Error("Close of nothing")
	}
	if runtime.GOOS != "windows" {
		t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
		if _, err := live.Offer(d); err == nil {
			t.Error("an offer in a folder that is not there")
		}
	}
}

// A program offers the connections of its device to "iwarp top".
func ExampleOffer() {
	device, err := iwarp.NewDevice(nil)
	if err != nil {
		log.Fatal(err)
	}
	offer, err := live.Offer(device)
	if err != nil {
		log.Fatal(err)
	}
	defer offer.Close()
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: device})
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	// ... and "iwarp top PID" shows what comes.
	fmt.Println(live.Take(device).Totals.Live, "connections")
	// Output: 0 connections
}
