package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp/internal/crc32c"
	"github.com/go-iwarp/iwarp/internal/fastcopy"
	"github.com/go-iwarp/iwarp/internal/pages"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
	"github.com/go-iwarp/iwarp/mpa"
)

// A bound is what iWARP asks for beyond TCP in a row of the table, and nothing
// else: the CRC at both ends, the copies, room for Markers. No header is made or
// looked at, no queue is kept. What is lost below it is this library's doing.
type bound struct {
	Name    string // of the row
	FPDU    int    // octets
	Size    int    // of the memory at either end, octets
	Conns   int
	CRC     bool
	Stage   bool // the sender copies before it sums: small FPDUs, and Reads
	Markers bool
	Plain   bool // the baseline: TCP alone
}

const (
	boundLong   = 2 + mpa.MaxULPDU + 2 + 4 // octets: the longest FPDU, with its PAD
	boundBatch  = 1 << 20                  // of a write: about as the library does
	boundRead   = 256 << 10                // of the receive buffer
	boundMarker = 512                      // octets from Marker to Marker
)

var bounds = []bound{
	{Name: "1 MiB Writes, fast CRC", FPDU: boundLong, Size: 1 << 20, Conns: 1, CRC: true},
	{Name: "1 MiB Writes, CRC off", FPDU: boundLong, Size: 1 << 20, Conns: 1},
	{Name: "1 MiB Reads, fast CRC", FPDU: boundLong, Size: 1 << 20, Conns: 1, CRC: true, Stage: true},
	{Name: "1 MiB Writes, 1448-octet segments, fast CRC", FPDU: 1448, Size: 1 << 20, Conns: 1, CRC: true, Stage: true},
	{Name: "1 MiB Writes, 1448-octet segments, CRC off", FPDU: 1448, Size: 1 << 20, Conns: 1, Stage: true},
	{Name: "1 MiB Writes, 1448-octet segments, Markers, fast CRC", FPDU: 1448, Size: 1 << 20, Conns: 1, CRC: true, Stage: true, Markers: true},
	{Name: "16 MiB Writes", FPDU: boundLong, Size: 16 << 20, Conns: 1, CRC: true},
	{Name: "8 connections, 1 MiB Writes", FPDU: boundLong, Size: 1 << 20, Conns: 8, CRC: true},
}

// bounds measures all rows' bounds, each beside its baseline.
func (c *checker) bounds(ctx context.Context) error {
	for _, b := range bounds {
		name := b.Name + ", the bound: of plain TCP"
		if !strings.Contains(name, c.only) {
			continue
		}
		plain := b
		plain.Plain = true
		var ratios []float64
		for range c.samples {
			var rates [2]float64
			for i, x := range []bound{plain, b} {
				var err error
				if rates[i], err = c.boundRound(ctx, x); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			ratios = append(ratios, rates[1]/rates[0])
		}
		slices.Sort(ratios)
		c.line("| %s | %.3g | %.2f..%.2f | | | |", name, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	return nil
}

// boundRound gives the rate of one round in octets a second.
func (c *checker) boundRound(ctx context.Context, b bound) (rate float64, err error) {
	// Half of the processors for each end, as in "iwarp bench".
	all := runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	defer runtime.GOMAXPROCS(all)
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	spec, err := json.Marshal(b)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-bound-serve", string(spec))
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			cancel() // it may wait for connections that do not come
		}
		err = errors.Join(err, cmd.Wait())
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	d := net.Dialer{Control: boundSocket}
	s := boundSender{bound: b, warm: time.Now().Add(c.duration / 3)}
	s.end = s.warm.Add(c.duration)
	errs := make([]error, b.Conns)
	var wg sync.WaitGroup
	for i := range b.Conns {
		nc, err := d.DialContext(ctx, "tcp", strings.TrimSpace(addr))
		if err != nil {
			return 0, err // the other connections end with their time
		}
		wg.Go(func() {
			defer nc.Close()
			errs[i] = s.send(nc)
		})
	}
	wg.Wait()
	return float64(s.octets.Load()) / c.duration.Seconds(), errors.Join(errs...)
}

// boundSender sends on some connections.
type boundSender struct {
	bound
	warm, end time.Time
	octets    atomic.Int64 // taken by the sockets between warm and end
}

func (s *boundSender) send(nc net.Conn) error {
	src, _ := pages.Huge(s.Size)
	stage := make([]byte, boundBatch)
	batch := boundBatch / s.FPDU * s.FPDU
	for at := 0; ; at += batch {
		if at+batch > len(src) {
			at = 0
		}
		out := src[at:][:batch]
		if !s.Plain {
			out = s.fpdus(out, stage)
		}
		if _, err := nc.Write(out); err != nil {
			return err
		}
		switch now := time.Now(); {
		case now.After(s.end):
			return nil
		case now.After(s.warm):
			s.octets.Add(int64(batch))
		}
	}
}

// fpdus does a sender's work on a batch and gives what is to be written.
func (s *boundSender) fpdus(src, stage []byte) []byte {
	for at := 0; at < len(src); at += s.FPDU {
		from, to := src[at:][:s.FPDU], stage[at:][:s.FPDU]
		switch {
		case s.Markers:
			copyPieces(to, from)
			crc32c.Update(0, to)
		case s.Stage && s.CRC:
			crc32c.Copy(0, to, from)
		case s.Stage:
			fastcopy.Copy(to, from)
		case s.CRC:
			crc32c.Update(0, from)
		}
	}
	if s.Stage {
		return stage[:len(src)]
	}
	return src
}

// copyPieces copies what stands between the Markers.
func copyPieces(to, from []byte) {
	for at := 0; at < len(from); at += boundMarker {
		end := min(at+boundMarker, len(from))
		copy(to[at:end], from[min(at+4, end):end])
	}
}

// boundSocket gives the socket the congestion control that the other rows have.
// Both ends of both rounds get the same: where none may be set, the system's.
func boundSocket(_, _ string, rc syscall.RawConn) error {
	if tcpsock.SetCongestion(rc, "cubic") != nil {
		_ = tcpsock.SetCongestion(rc, "reno")
	}
	return nil
}

// boundServe is the receiver, which ends with the last connection.
func boundServe(spec string) error {
	var b bound
	if err := json.Unmarshal([]byte(spec), &b); err != nil {
		return err
	}
	lc := net.ListenConfig{Control: boundSocket}
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	errs := make([]error, b.Conns)
	var wg sync.WaitGroup
	for i := range b.Conns {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer nc.Close()
			errs[i] = b.receive(nc)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// receive does a receiver's work until the end of the connection.
func (b *bound) receive(nc net.Conn) error {
	buf := make([]byte, boundRead)
	dst, _ := pages.Huge(b.Size)
	have, to := 0, 0
	for {
		room := buf[have:]
		if b.Plain && len(dst) > 1<<20 { // as in "iwarp bench": large messages go to as much memory
			to %= len(dst)
			room = dst[to:min(to+boundRead, len(dst))]
		}
		n, err := nc.Read(room)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b.Plain {
			to += n
			continue
		}
		rd := 0
		for have += n; have-rd >= b.FPDU; rd += b.FPDU {
			fpdu := buf[rd:][:b.FPDU]
			if b.CRC {
				crc32c.Update(0, fpdu)
			}
			if to+b.FPDU > len(dst) {
				to = 0
			}
			if b.Markers {
				copyPieces(dst[to:], fpdu)
			} else {
				fastcopy.Copy(dst[to:], fpdu)
			}
			to += b.FPDU
		}
		have = copy(buf, buf[rd:have])
	}
}
