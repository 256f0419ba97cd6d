package iwarptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// joined puts a relay between two pipes and returns the ends, and Join's result when it ends.
func joined(t *testing.T, cfg *RelayConfig) (a, b *Conn, result <-chan error) {
	t.Helper()
	r, err := NewRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, ra := Pipe(nil)
	rb, b := Pipe(&PipeConfig{KeepWrites: true})
	done := make(chan error, 1)
	go func() { done <- r.Join(t.Context(), ra, rb) }()
	return a, b, done
}

// An octet takes the delay and its turn on the line, no more and no less.
func TestRelayTime(t *testing.T) {
	for name, c := range map[string]struct {
		path  RelayPath
		first time.Duration // of 1000 octets
		last  time.Duration // of them, and of the FIN
	}{
		"nothing": {path: RelayPath{}, first: 0, last: 0},
		"delay": {
			path: RelayPath{Delay: 50 * time.Millisecond}, first: 50 * time.Millisecond, last: 50 * time.Millisecond,
		},
		"rate": {path: RelayPath{Rate: 1000}, first: time.Millisecond, last: time.Second},
		"both": {
			path: RelayPath{Delay: time.Second, Rate: 100}, first: 1010 * time.Millisecond, last: 11 * time.Second,
		},
		"a small window": {
			path: RelayPath{Delay: time.Second, Window: 100}, first: time.Second, last: 11 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, result := joined(t, &RelayConfig{Forward: c.path})
				start := time.Now()
				go func() {
					_, _ = a.Write(bytes.Repeat([]byte{7}, 1000))
					_ = a.CloseWrite()
				}()
				if _, err := io.ReadFull(b, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != c.first {
					t.Errorf("the first octet took %v, want %v", took, c.first)
				}
				rest, err := io.ReadAll(b)
				if err != nil || len(rest) != 999 {
					t.Errorf("%d octets of 999: %v", len(rest), err)
				}
				if took := time.Since(start); took != c.last {
					t.Errorf("the last octet and the FIN took %v, want %v", took, c.last)
				}
				// The other direction is free of all that, and half a connection goes on.
				start = time.Now()
				if _, err := b.Write([]byte("back")); err != nil {
					t.Fatal(err)
				}
				_ = b.Close()
				if got, err := io.ReadAll(a); string(got) != "back" || err != nil || time.Since(start) != 0 {
					t.Errorf("%q came back after %v: %v", got, time.Since(start), err)
				}
				if err := <-result; err != nil {
					t.Errorf("Join: %v", err)
				}
			})
		})
	}
}

// stream is what an initiator sends: a Request and five FPDUs, and what the responder asked for.
func stream(markers bool) (request, reply []byte, fpdus [][]byte) {
	f := Framer{Markers: markers}
	var flags byte
	if markers {
		flags = FlagM
	}
	for i := range 5 {
		fpdus = append(fpdus, f.Frame(bytes.Repeat([]byte{byte(i)}, 300*i+1)))
	}
	return Request(FlagC, 1, []byte("private")), Reply(flags|FlagC, 1, nil), fpdus
}

// Each fault does what it says to the FPDU that it names, wherever the octets are cut, with and without Markers.
func TestRelayFPDUs(t *testing.T) {
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	corrupt := func(b []byte, at int, fix bool) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x80
		if fix {
			FixCRC(b)
		}
		return b
	}
	for _, c := range []struct {
		fault string
		want  func(f [][]byte) []byte
	}{
		{
			fault: "corrupt:fpdu=3,octet=20,mask=0x80",
			want:  func(f [][]byte) []byte { return cat(f[0], f[1], f[2], corrupt(f[3], 20, false), f[4]) },
		},
		{
			fault: "corrupt:fpdu=3,octet=20,mask=0x80,fix",
			want:  func(f [][]byte) []byte { return cat(f[0], f[1], f[2], corrupt(f[3], 20, true), f[4]) },
		},
		{fault: "drop:fpdu=0,count=2", want: func(f [][]byte) []byte { return cat(f[2], f[3], f[4]) }},
		{fault: "drop:fpdu=1,count=-1", want: func(f [][]byte) []byte { return f[0] }},
		{fault: "reorder:fpdu=1", want: func(f [][]byte) []byte { return cat(f[0], f[2], f[1], f[3], f[4]) }},
		{fault: "reorder:fpdu=0,count=-1", want: func(f [][]byte) []byte { return cat(f[1], f[0], f[3], f[2], f[4]) }},
		{fault: "split:fpdu=2,size=7", want: func(f [][]byte) []byte { return cat(f...) }},
		{fault: "cut:fpdu=4", want: func(f [][]byte) []byte { return cat(f[:4]...) }},
		{fault: "hold:fpdu=2,for=1h", want: func(f [][]byte) []byte { return cat(f...) }},
		{fault: "drop:fpdu=0,back", want: func(f [][]byte) []byte { return cat(f...) }},
	} {
		for _, markers := range []bool{false, true} {
			for _, piece := range []int{1, 3, 100, 1 << 20} {
				synctest.Test(t, func(t *testing.T) {
					var fault RelayFault
					if err := fault.UnmarshalText([]byte(c.fault)); err != nil {
						t.Fatal(err)
					}
					happened := 0
					a, b, result := joined(t,
						&RelayConfig{Faults: []RelayFault{fault}, OnFault: func(RelayFault) { happened++ }})
					request, reply, fpdus := stream(markers)
					start := time.Now()
					go func() {
						_, _ = a.Write(request)
						_, _ = io.ReadFull(a, make([]byte, len(reply)))
						for rest := cat(fpdus...); len(rest) > 0; {
							n := min(piece, len(rest))
							_, _ = a.Write(rest[:n])
							rest = rest[n:]
						}
						_ = a.CloseWrite()
					}()
					got := make([]byte, len(request))
					_, _ = io.ReadFull(b, got)
					_, _ = b.Write(reply)
					rest, err := io.ReadAll(b)
					_ = b.Close()
					if !bytes.Equal(got, request) || err != nil || !bytes.Equal(rest, c.want(fpdus)) {
						t.Errorf("%s, Markers %v, pieces of %d: %d octets came, want %d: %v", c.fault, markers, piece,
							len(rest), len(c.want(fpdus)), err)
					}
					if took := time.Since(start); took != fault.For {
						t.Errorf("%s: took %v", c.fault, took)
					}
					if !fault.Back && happened == 0 {
						t.Errorf("%s: nobody was told", c.fault)
					}
					if err := <-result; err != nil {
						t.Errorf("%s: Join: %v", c.fault, err)
					}
				})
			}
		}
	}
}

// Faults that are counted in octets and in writes.
func TestRelayOctetsAndWrites(t *testing.T) {
	for fault, want := range map[string]string{
		"corrupt:octet=4,mask=0x20":                 "abcd|Efgh|ijkl",
		"corrupt:octet=6,count=3,mask=0x20":         "abcd|efGH|Ijkl",
		"corrupt:octet=0,count=-1,mask=0x20":        "ABCD|EFGH|IJKL",
		"drop:octet=5":                              "abcd|e|gh|ijkl",
		"drop:octet=2,count=4":                      "ab|gh|ijkl",
		"cut:octet=6":                               "abcd|ef",
		"drop:write=1":                              "abcd|ijkl",
		"reorder:write=0":                           "efgh|abcd|ijkl",
		"reorder:write=2":                           "abcd|efgh|ijkl",
		"split:write=1,size=3":                      "abcd|efg|h|ijkl",
		"split:write=0,count=-1,size=2":             "ab|cd|ef|gh|ij|kl",
		"corrupt:write=2,octet=100,mask=0x20":       "abcd|efgh|ijkL",
		"cut:write=1":                               "abcd",
		"drop:fpdu=0":                               "abcd|efgh|ijkl", // it has none
		"hold:write=9":                              "abcd|efgh|ijkl", // never reached
		"corrupt:octet=4,mask=0x20;cut:octet=8":     "abcd|Efgh",
		"reorder:write=0;corrupt:write=0,mask=0x20": "efgh|Abcd|ijkl",
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := &RelayConfig{}
			for text := range strings.SplitSeq(fault, ";") {
				var f RelayFault
				if err := f.UnmarshalText([]byte(text)); err != nil {
					t.Fatal(err)
				}
				cfg.Faults = append(cfg.Faults, f)
			}
			a, b, _ := joined(t, cfg)
			go func() {
				for _, s := range []string{"abcd", "efgh", "ijkl"} {
					_, _ = a.Write([]byte(s))
					time.Sleep(time.Millisecond) // virtual: the relay reads each write alone
				}
				_ = a.Close()
			}()
			var got []string
			buf := make([]byte, 100)
			for {
				n, err := b.Read(buf)
				if n > 0 {
					got = append(got, string(buf[:n]))
				}
				if err != nil {
					break
				}
			}
			_ = b.Close()
			time.Sleep(time.Second) // virtual: until the writer is through
			if s := strings.Join(got, "|"); s != want {
				t.Errorf("%s: %q, want %q", fault, s, want)
			}
		})
	}
}

// A hold without a time lasts until Resume; a reset reaches both ends; so does the end of the context.
func TestRelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := NewRelay(&RelayConfig{Faults: []RelayFault{
			{Kind: RelayHold, Unit: UnitOctet, At: 2}, {Kind: RelayReset, Unit: UnitOctet, At: 4},
		}})
		if err != nil {
			t.Fatal(err)
		}
		a, ra := Pipe(nil)
		rb, b := Pipe(nil)
		result := make(chan error, 1)
		go func() { result <- r.Join(t.Context(), ra, rb) }()
		if _, err := a.Write([]byte("abcd")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		if n, err := b.Read(buf); n != 2 || err != nil {
			t.Errorf("before the hold: %d octets, %v", n, err)
		}
		start := time.Now()
		time.AfterFunc(time.Hour, r.Resume)
		if n, err := b.Read(buf); n != 2 || err != nil || time.Since(start) != time.Hour {
			t.Errorf("after the hold: %d octets, %v, after %v", n, err, time.Since(start))
		}
		if _, err := a.Write([]byte("e")); err != nil {
			t.Fatal(err)
		}
		for name, end := range map[string]*Conn{"a": a, "b": b} {
			if _, err := end.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("end %s after the reset: %v", name, err)
			}
		}
		if err := <-result; !errors.Is(err, ErrFault) {
			t.Errorf("Join: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := NewRelay(&RelayConfig{Forward: RelayPath{Delay: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		a, ra := Pipe(nil)
		rb, b := Pipe(nil)
		result := make(chan error, 1)
		go func() { result <- r.Join(ctx, ra, rb) }()
		if _, err := a.Write([]byte("never comes")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
		for name, end := range map[string]*Conn{"a": a, "b": b} {
			if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("end %s: %v", name, err)
			}
		}
	})
}

// Over TCP: many connections, each with its own count, and an end of the context.
func TestRelayServe(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	go func() {
		for {
			nc, err := target.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				_, _ = io.Copy(nc, nc)
			}()
		}
	}()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRelay(&RelayConfig{
		Faults: []RelayFault{{Kind: RelayDrop, Unit: UnitOctet, At: 1}, {Kind: RelayDrop, Unit: UnitOctet, Back: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- r.Serve(ctx, ln, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", target.Addr().String())
		})
	}()
	for range 3 {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write([]byte("abcd")); err != nil {
			t.Fatal(err)
		}
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(nc); string(got) != "cd" || err != nil {
			t.Errorf("%q came back: %v", got, err)
		}
		_ = nc.Close()
	}
	open, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.Write([]byte("xyz")); err != nil {
		t.Fatal(err)
	}
	if n, err := open.Read(make([]byte, 3)); n != 1 || err != nil {
		t.Errorf("%d octets: %v", n, err)
	}
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open after Serve has returned")
	}
}

// A fault is the same after it was written and read; what makes no sense is refused with its reason.
func TestRelayFaultText(t *testing.T) {
	for _, text := range []string{
		"corrupt:octet=7", "corrupt:fpdu=3,octet=20,mask=128,fix,back", "drop:write=1,count=-1",
		"hold:octet=1000,for=2s",
		"split:fpdu=0,count=3,size=100", "reset:octet=18446744073709551615", "cut:fpdu=0", "reorder:write=2",
	} {
		var f, again RelayFault
		if err := f.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		b, err := f.MarshalText()
		if err != nil || again.UnmarshalText(b) != nil || again != f {
			t.Errorf("%s is %s, is %v: %v", text, b, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                         "KIND:UNIT=AT",
		"corrupt":                  "KIND:UNIT=AT",
		"swim:octet=1":             `kind "swim"`,
		"drop:count=1":             `unit ""`,
		"drop:octet=x":             "octet=x",
		"drop:write=1,fpdu=2":      "counted is write",
		"drop:fpdu=1,mask=256":     "mask=256",
		"drop:fpdu=1,often":        `"often"`,
		"hold:octet=0,for=1":       "for=1",
		"hold:octet=0,for=-1s":     "below 0",
		"hold:fpdu=1,for=x":        `for: "x": a duration`,
		"drop:fpdu=1,for=1s":       "for 1s: only a hold",
		"drop:fpdu=1,size=2":       "size 2: only a split",
		"drop:fpdu=1,mask=2":       "mask 0x2: only a corruption",
		"corrupt:fpdu=1,mask=0":    `mask: "0": a number from 1 to 255`,
		"drop:fpdu=1,octet=2":      "octet 2: only an FPDU or a write",
		"cut:fpdu=1,count=2":       "count 2: a cut happens once",
		"cut:fpdu=-1":              `fpdu: "-1": a whole number from 0 on`,
		"reorder:octet=1":          "reorder of octets",
		"split:octet=1":            "split of octets",
		"corrupt:write=1,fix":      "fix",
		"corrupt:fpdu=1,octet=-1":  "below 0",
		"corrupt:fpdu=1,count=1e9": "count=1e9",
	} {
		var f RelayFault
		if err := f.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %s", text, err, want)
		}
	}
	for _, cfg := range []RelayConfig{
		{Forward: RelayPath{Delay: -1}},
		{Back: RelayPath{Rate: -1}},
		{Back: RelayPath{Window: -1}},
		{Faults: []RelayFault{{}}},
	} {
		if _, err := NewRelay(&cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

// No octets of either end make a relay fail, and without a fault none is lost, whatever they look like.
func FuzzRelayStream(f *testing.F) {
	request, _, fpdus := stream(true)
	f.Add(append(request, bytes.Join(fpdus, nil)...), uint16(7), true)
	f.Add([]byte("MPA ID Req Frame\x00\x01\xff\xff"), uint16(1), false)
	f.Fuzz(func(t *testing.T, b []byte, piece uint16, markers bool) {
		never := RelayFault{Kind: RelayDrop, Unit: UnitFPDU, At: 1 << 60}
		s := newRelayStream([]RelayFault{never}, false)
		s.other = new(relayStream)
		if markers {
			s.other.flags.Store(FlagM)
		}
		var got []byte
		take := func(steps []relayStep) {
			for _, step := range steps {
				got = append(got, step.b...)
			}
		}
		for rest := b; len(rest) > 0; {
			n := min(max(int(piece), 1), len(rest))
			take(s.feed(bytes.Clone(rest[:n])))
			rest = rest[n:]
		}
		take(s.end())
		if !bytes.Equal(got, b) {
			t.Errorf("%d octets became %d", len(b), len(got))
		}
	})
}
