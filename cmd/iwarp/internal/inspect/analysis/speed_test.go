package analysis_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// bigCapture writes a capture of about size octets: Sends and Writes of many
// segments, each FPDU a TCP segment of its own, with CRC.
func bigCapture(t testing.TB, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	out := newPcapOut(binary.LittleEndian, true, 1)
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	var fr iwarptest.Framer
	payload := make([]byte, 1408)
	for i := range payload {
		payload[i] = byte(i)
	}
	msn, mo, n := uint32(1), uint32(0), 0
	for written := 0; written < size; n++ {
		var seg []byte
		last := n%32 == 31
		if n/32%2 == 0 {
			seg = iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: last, MSN: msn, MO: mo}, payload)
			if mo += uint32(len(payload)); last {
				msn, mo = msn+1, 0
			}
		} else {
			seg = iwarptest.Tagged(0, last, 0x1234, uint64(n%32*len(payload)), payload)
		}
		k.send(0, fr.Frame(seg))
		if n%16 == 0 {
			k.raw(1, k.seq[1], tcpACK, nil)
		}
		if len(out.b) > 1<<20 {
			written += len(out.b)
			if _, err := w.Write(out.b); err != nil {
				t.Fatal(err)
			}
			out.b = out.b[:0]
		}
	}
	k.close()
	if _, err := w.Write(out.b); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func readAll(t testing.TB, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := analysis.Open(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := e.(*analysis.Verdict); ok {
			t.Fatalf("%+v", v)
		}
		n++
	}
}

// TestMemory shows that memory does not grow with the capture.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 64 MB")
	}
	path := filepath.Join(t.TempDir(), "big.pcap")
	bigCapture(t, path, 64<<20)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	readAll(t, path)
	runtime.ReadMemStats(&after)
	if n := after.HeapSys - before.HeapSys; n > 24<<20 && after.HeapSys > before.HeapSys {
		t.Errorf("the heap grew by %d octets while 64 MB were read", n)
	}
}

// TestSpeed compares with tshark on a capture of 100 MB and reports both. Times are
// judged only by hand, where the machine is quiet: IWARP_SPEED is the octets of the
// capture then, as 1000000000.
func TestSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 100 MB twice")
	}
	size, byHand := 100_000_000, os.Getenv("IWARP_SPEED")
	if byHand != "" {
		n, err := strconv.Atoi(byHand)
		if err != nil {
			t.Fatal("IWARP_SPEED is no number of octets:", err)
		}
		size = n
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: there is nothing to compare with")
	}
	path := filepath.Join(t.TempDir(), "big.pcap")
	bigCapture(t, path, size)
	start := time.Now()
	n := readAll(t, path)
	own := time.Since(start)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d octets: %v, %d events, heap of %d MiB", size, own, n, mem.HeapSys>>20)
	start = time.Now()
	cmd := exec.Command(tshark, "-r", path, "-Y", "iwarp_mpa", "--disable-heuristic", "rpcrdma_iwarp", "-T", "fields",
		"-e", "frame.number")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	other := time.Since(start)
	t.Logf("tshark: %v, %.1f times as long", other, float64(other)/float64(own))
	if byHand != "" && other < 5*own {
		t.Errorf("less than 5 times as fast as tshark")
	}
}

func BenchmarkReader(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.pcap")
	bigCapture(b, path, 16<<20)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		readAll(b, path)
	}
}
