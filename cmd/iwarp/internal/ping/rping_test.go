package ping

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// What rping puts into its buffer, octet by octet.
func rpingPattern(size int, n uint64) []byte {
	b := []byte("rdma-ping-" + string('0'+rune(n)) + ": ")
	c := byte(65 + n)
	for len(b) < size {
		b = append(b, c)
		if c++; c > 122 {
			c = 65
		}
	}
	b = b[:size]
	b[size-1] = 0
	return b
}

func TestPattern(t *testing.T) {
	for _, size := range []int{1, 2, 12, 13, 14, 64, 70, 71, 72, 128, 129, 1000, 65537} {
		for n := range uint64(10) {
			got := bytes.Repeat([]byte{0xee}, size+1)
			pattern(got[:size], n)
			if want := rpingPattern(size, n); !bytes.Equal(got[:size], want) {
				t.Fatalf("size %d, iteration %d:\n%q\nwant\n%q", size, n, got[:size], want)
			}
			if got[size] != 0xee {
				t.Fatalf("size %d: written behind the buffer", size)
			}
		}
	}
	b := make([]byte, 200)
	pattern(b, 58) // the start has gone round once
	if want := "rdma-ping-58: ABC"; string(b[:len(want)]) != want {
		t.Errorf("%q, want %q", b[:len(want)], want)
	}
	// No pattern has a zero, where rping's server would stop, but the last octet,
	// nor the octet that marks an untouched sink.
	for n := range uint64(200) {
		pattern(b, n)
		if bytes.IndexByte(b, 0) != len(b)-1 || bytes.IndexByte(b, 0xff) >= 0 {
			t.Fatalf("iteration %d: %q", n, b)
		}
	}
}

func TestAdvert(t *testing.T) {
	a := advert{at: iwarp.RemoteBuffer{STag: 0x1cb35800, TO: 0x5617a731d510}, size: 200}
	const want = "00005617a731d5101cb35800000000c8"
	b := a.appendTo(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := parseAdvert(b); got != a {
		t.Errorf("%+v, want %+v", got, a)
	}
}

func TestLatencies(t *testing.T) {
	var l latencies
	for _, d := range []time.Duration{5, 1, 4, 2} {
		l.add(d, 10)
	}
	if s := l.summary(); s != (summary{Iterations: 4, Octets: 40, Min: 1, Median: 3, Max: 5}) {
		t.Errorf("%+v", s)
	}
	for range maxSample * 2 {
		l.add(7, 1)
	}
	if s := l.summary(); len(l.sample) != maxSample || s.Median != 7 || s.Min != 1 || s.Max != 7 {
		t.Errorf("%+v of a sample of %d", s, len(l.sample))
	}
}

func TestRound(t *testing.T) {
	for _, test := range [][2]time.Duration{
		{0, 0}, {999, 999}, {1234, 1230}, {830612, 831000}, {245012345, 245000000},
	} {
		if got := ui.Round(test[0]); got != test[1] {
			t.Errorf("round(%d) = %d, want %d", test[0], got, test[1])
		}
	}
}

func TestProgress(t *testing.T) {
	out := cmdtest.NewLines()
	o := ui.NewOutput(out, out)
	bar := ui.Progress{Output: o, Total: 1000, Start: time.Now()}
	bar.Show(500)
	bar.Clear()
	if out.String() != "" {
		t.Errorf("no terminal, and yet: %q", out)
	}
	o.Terminal = true
	bar.Show(500)
	bar.Show(501) // too early for another one
	cmdtest.MustContain(t, "progress", out.String(),
		"[###############...............]  50 %  500 octets of 1000 octets")
	if strings.Contains(out.String(), "501") {
		t.Errorf("shown too often: %q", out)
	}
	bar.Clear()
	if !strings.HasSuffix(out.String(), " \r") {
		t.Errorf("the line does not go away: %q", out)
	}
}

func TestValues(t *testing.T) {
	var size ui.Octets
	for text, want := range map[string]ui.Octets{
		"1": 1, "64K": 64 << 10, "64KiB": 64 << 10, "3M": 3 << 20, "1G": 1 << 30,
	} {
		if err := size.UnmarshalText([]byte(text)); err != nil || size != want {
			t.Errorf("%s: %d, %v", text, size, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "K", "1T", "1iB", "4G", "4294967296", "1.5M", " 1"} {
		if err := size.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %d", text, size)
		}
	}
	var addr ui.Address
	for text, want := range map[string]ui.Address{
		"h:1": "h:1", "h": "h:7174", "[::1]:5": "[::1]:5", "::1": "[::1]:7174", "[::1]": "[::1]:7174", ":0": ":0",
	} {
		if err := addr.UnmarshalText([]byte(text)); err != nil || addr != want {
			t.Errorf("%q: %q, %v", text, addr, err)
		}
	}
	for _, text := range []string{"", "h:65536", "h:x", "h:", "a:b:c"} {
		if err := addr.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %q", text, addr)
		}
	}
}
