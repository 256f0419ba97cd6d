package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/internal/netpair"
)

// bench runs a bench with both ends in this process and gives its JSON objects.
func bench(t *testing.T, args ...string) (code int, events []map[string]any, stderr string) {
	t.Helper()
	var stdout, errs bytes.Buffer
	args = append([]string{"bench", "--one-process", "--json", "--samples", "2", "--duration", "2ms"}, args...)
	code = Main(cmdtest.Context(t), args, &stdout, &errs)
	for line := range strings.Lines(stdout.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return code, events, errs.String()
}

// Every operation can be measured, in every way.
func TestBench(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--op", "read"},
		{"--op", "send", "--size", "1,64,100K"},
		{"--op", "notify", "--size", "4K"},
		{"--bidi", "--baseline"},
		{"--op", "send", "--bidi", "--size", "64", "--depth", "100"},
		{"--op", "read", "--bidi", "--conns", "3", "--baseline"},
		{"--size", "64,1M", "--baseline", "--buffered"},
		{"--op", "read", "--bidi", "--size", "5000", "--baseline", "--buffered"},
		{"--lat", "--baseline"},
		{"--lat", "--op", "read"},
		{"--lat", "--op", "notify", "--progress=polling", "--baseline"},
		{"--markers", "--segment", "1448", "--baseline"},
		{"--op", "atomic", "--baseline"},
		{"--op", "atomic", "--lat", "--conns", "2"},
		{"--conns", "70", "--op", "send", "--size", "64", "--lat", "--baseline"},
		{"-n", "70", "--op", "send", "--size", "64", "--baseline"},
		{"--crc", "off", "--size", "17M"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, events, stderr := bench(t, args...)
			if code != ui.ExitOK || len(events) < 2 {
				t.Fatalf("exit code %d, %d events, stderr %s%v", code, len(events), stderr, events)
			}
			if m := events[0]; m["event"] != "machine" || m["crc_kernel"] == "" || m["peer"] == nil {
				t.Errorf("machine: %v", m)
			}
			for _, r := range events[1:] {
				checkResult(t, r, strings.Join(args, " "))
			}
		})
	}
}

func checkResult(t *testing.T, r map[string]any, args string) {
	t.Helper()
	want := []string{"op", "octets", "depth", "conns", "mulpdu", "allocs_per_op", "rounds"}
	if strings.Contains(args, "--lat") {
		want = append(want, "min_ns", "median_ns", "p99_ns", "p999_ns", "max_ns", "histogram")
	} else {
		want = append(want, "gb_per_s", "messages_per_s", "syscalls_per_gb")
	}
	if strings.Contains(args, "--baseline") {
		want = append(want, "ratio", "ratio_min", "ratio_max", "baseline")
	}
	for _, key := range want {
		if _, ok := r[key]; !ok {
			t.Errorf("no %q in %v", key, r)
		}
	}
	if conns := r["conns"].(float64); conns == 70 {
		if j, ok := r["jain"].(float64); ok && (j <= 0 || j > 1.0001) {
			t.Errorf("Jain's index is %v", j)
		}
		if m, ok := r["messages_per_s"].(float64); !ok || m <= 0 {
			t.Errorf("%v messages a second", m)
		}
	}
	if n := r["samples"]; n != 2.0 {
		t.Errorf("%v samples", n)
	}
	if seg := r["mulpdu"].(float64); strings.Contains(args, "--segment 1448") && seg > 1448 {
		t.Errorf("MULPDU is %v", seg)
	}
}

// A bench on a network of its own has the frames of its MTU, and says what the network did.
func TestBenchNet(t *testing.T) {
	if p, err := netpair.New(nil); err != nil {
		t.Skip(err)
	} else if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for mtu, least := range map[string]float64{"1500": 1400, "9000": 8900} {
		code, events, stderr := bench(t, "--net", mtu, "--steering", "kernel", "--no-offloads", "--op", "send",
			"--size", "1K")
		if code != ui.ExitOK || len(events) != 2 {
			t.Fatalf("MTU %s: exit code %d, stderr %s%v", mtu, code, stderr, events)
		}
		network, _ := events[1]["net"].(map[string]any)
		if fmt.Sprint(network["mtu"]) != mtu || network["offloads"] != false || network["steering"] != "kernel" {
			t.Errorf("net: %v", network)
		}
		if n := events[1]["mulpdu"].(float64); n < least || n > least+100 {
			t.Errorf("MTU %s: MULPDU %v", mtu, n)
		}
	}
}

// A sample in which a segment is sent again is void where packets cannot be reordered, and too many of them are an
// error.
func TestBenchVoid(t *testing.T) {
	fixed := &benchResult{network: &netResult{Steering: steeringFixed}}
	if ok, err := fixed.counts(0, 1); !ok || err != nil {
		t.Error("a good sample is void", err)
	}
	for range maxVoid {
		if ok, err := fixed.counts(1, 1); ok || err != nil {
			t.Error("a sample with a segment sent again counts", err)
		}
	}
	if _, err := fixed.counts(1, 1); err == nil {
		t.Error("nothing but void samples is no error")
	}
	cmdtest.MustContain(t, "text", fixed.network.Text(), "void")
	kernel := &benchResult{network: &netResult{Steering: steeringKernel}}
	if ok, err := kernel.counts(7, 1); !ok || err != nil || kernel.network.Retransmissions != 7 {
		t.Errorf("left to the kernel: %v, %v, %d", ok, err, kernel.network.Retransmissions)
	}
}

func TestBenchHTML(t *testing.T) {
	for _, args := range [][]string{{"--size", "64,4K", "--baseline"}, {"--lat"}} {
		name := filepath.Join(t.TempDir(), "bench.html")
		if code, _, stderr := bench(t, append(args, "--html", name)...); code != ui.ExitOK {
			t.Fatal(code, stderr)
		}
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cmdtest.MustContain(t, "page", string(page), "<svg", "</html>", "CRC32c")
		if strings.Contains(string(page), "http") || strings.Contains(string(page), "NaN") {
			t.Error("the page needs something else, or has no numbers")
		}
	}
}

// Plain text has a table with a header.
func TestBenchText(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Main(cmdtest.Context(t),
		[]string{"bench", "--one-process", "--samples", "3", "--duration", "1ms", "--size", "1K,2K", "--baseline"},
		&stdout, &stderr)
	if code != ui.ExitOK {
		t.Fatal(code, stderr.String())
	}
	cmdtest.MustContain(t, "stdout", stdout.String(), "GB/s", "messages/s", "ratio", "1KiB", "2KiB")
}

func TestBenchUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--op swim":                      "write, read, send, notify or atomic",
		"--lat --op write":               "use notify",
		"--lat --bidi":                   "--lat",
		"--op atomic --size 16":          "of 8 octets",
		"--op atomic --sweep":            "of 8 octets",
		"--conns 20000":                  "--conns 20000",
		"--sweep --size 1K":              "--sweep",
		"--depth 0":                      "--depth 0",
		"--conns 0":                      "--conns 0",
		"--samples 0":                    "--samples 0",
		"--duration 1us":                 "--duration",
		"--size 1G":                      "--size",
		"--segment 64":                   "--segment",
		"--segment 1448 --fpdu-max 1448": "--segment 1448",
		"--serve :0 --lat":               "--serve",
		"--serve :0 127.0.0.1":           "does not dial",
		"127.0.0.1:1 --same-cpu":         "--same-cpu",
		"--private 00":                   "--private",
		"--record x":                     "--record",
		"--buffered":                     "only with --baseline",
		"--net 100":                      "--net 100",
		"--net 1500 127.0.0.1":           "--net",
		"--net 1500 --serve :0":          "--net",
		"--no-offloads":                  "only with --net",
		"--steering kernel":              "only with --net",
		"--net 1500 --steering left":     "fixed or kernel",
	} {
		var stdout, stderr bytes.Buffer
		code := Main(cmdtest.Context(t), append([]string{"bench"}, strings.Fields(args)...), &stdout, &stderr)
		if code != ui.ExitUsage {
			t.Errorf("%s: exit code %d", args, code)
		}
		cmdtest.MustContain(t, args, stderr.String(), want)
	}
}

// A server that is not there, or is something else, is named.
func TestBenchNoServer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Main(cmdtest.Context(t), []string{"bench", "127.0.0.1:1", "--timeout", "2s"}, &stdout, &stderr)
	if code != ui.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	cmdtest.MustContain(t, "stderr", stderr.String(), "127.0.0.1:1")
}

// Each round has its own times, not those of the last one.
func TestBenchRounds(t *testing.T) {
	_, events, _ := bench(t, "--lat", "--samples", "5", "--duration", "5ms")
	medians := map[any]bool{}
	rounds, _ := events[1]["rounds"].([]any)
	for _, round := range rounds {
		medians[round.(map[string]any)["median_ns"]] = true
	}
	if len(rounds) != 5 || len(medians) == 1 {
		t.Errorf("%d rounds with %d medians", len(rounds), len(medians))
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{
		{shares: []float64{3, 3, 3}, want: 1},
		{shares: []float64{5, 0, 0, 0, 0}, want: 0.2},
		{shares: []float64{1, 2}, want: 0.9},
		{shares: []float64{0, 0}, want: 1},
	} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.shares, got, c.want)
		}
	}
}

// What limits a result far away is told with what would help; near by, nothing is.
func TestBenchLimit(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		op    benchOp
		trip  time.Duration
		rate  float64 // octets a second
		depth int
		ord   int
		want  benchLimit
		words string
	}{
		{
			op: opRead, trip: 50 * time.Millisecond, rate: 32 * mib / 0.05, depth: 64, ord: 32, want: limitORD,
			words: "--ord here and --ird at the other end",
		},
		{
			op: opRead, trip: 50 * time.Millisecond, rate: 32 * mib / 0.05, depth: 32, ord: 64, want: limitDepth,
			words: "--depth 32",
		},
		{op: opRead, trip: 50 * time.Millisecond, rate: 10 * mib / 0.05, depth: 64, ord: 32, want: "", words: ""},
		{op: opRead, trip: 50 * time.Microsecond, rate: 32 * mib / 0.05, depth: 64, ord: 32, want: "", words: ""},
		{op: opWrite, trip: 50 * time.Millisecond, rate: 32 * mib / 0.05, depth: 4, ord: 32, want: "", words: ""},
		{
			op: opSend, trip: 50 * time.Millisecond, rate: 40 * mib / 0.05, depth: 4, ord: 32, want: limitDepth,
			words: "--depth 4",
		},
		{op: opRead, trip: 50 * time.Millisecond, rate: 20 * mib / 0.05, depth: 64, ord: 32, want: "", words: ""},
	} {
		r := &benchResult{benchSpec: benchSpec{Op: c.op, Size: mib, Depth: c.depth, Conns: 1}}
		r.ours.GBps = c.rate / 1e9
		r.limit(c.trip, c.ord)
		if r.limitedBy != c.want {
			t.Errorf("%+v: limited by %q", c, r.limitedBy)
		}
		cmdtest.MustContain(t, "text", r.limitText(), c.words)
	}
}

func TestHistogramAndQuantiles(t *testing.T) {
	r := &benchResult{times: []int64{1, 1, 2, 100, 1000, 1 << 40}}
	total := 0
	for _, b := range r.histogram() {
		total += b.Count
	}
	if total != len(r.times) {
		t.Errorf("the histogram has %d of %d times", total, len(r.times))
	}
	if q := quantile(r.times, 0.5); q != 100 {
		t.Errorf("median %d", q)
	}
	if m := median([]float64{1, 2, 4, 3}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if quantile(nil, 0.5) != 0 || median(nil) != 0 {
		t.Error("nothing has a median")
	}
}
