package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp/internal/crc32c"
	"github.com/go-iwarp/iwarp/internal/fastcopy"
	"github.com/go-iwarp/iwarp/internal/tcpinfo"
	"github.com/go-iwarp/iwarp/mpa"
)

// The bound is what iWARP asks for beyond TCP and nothing else: the CRC at both
// ends, and the copy from the receive buffer to the region. No header is made or
// looked at, no queue is kept. What is lost below it is this library's doing.

const (
	boundFPDU  = 2 + mpa.MaxULPDU + 2 + 4 // octets: the longest, with its PAD
	boundBatch = 16 * boundFPDU           // of a write: about as the library does
	boundRead  = 256 << 10                // of the receive buffer
	boundDest  = 1 << 20                  // of the region
	boundName  = "1 MiB Writes, bound: CRC at both ends and one copy, no more: of plain TCP"
)

func (c *checker) bound(ctx context.Context) error {
	if !strings.Contains(boundName, c.only) {
		return nil
	}
	var ratios []float64
	for range c.samples {
		plain, err := c.boundRound(ctx, false)
		if err != nil {
			return err
		}
		all, err := c.boundRound(ctx, true)
		if err != nil {
			return err
		}
		ratios = append(ratios, all/plain)
	}
	slices.Sort(ratios)
	c.line("| %s | %.3g | %.2f..%.2f | | | |", boundName, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	return nil
}

// boundRound gives the rate of one round in octets a second.
func (c *checker) boundRound(ctx context.Context, all bool) (rate float64, err error) {
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	mode := "plain"
	if all {
		mode = "all"
	}
	cmd := exec.CommandContext(ctx, exe, "-bound-serve", mode)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	d := net.Dialer{Control: boundSocket}
	nc, err := d.DialContext(ctx, "tcp", strings.TrimSpace(addr))
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	src := make([]byte, boundBatch)
	if err := boundSend(nc, src, all, c.duration/3, new(int)); err != nil {
		return 0, err
	}
	n := 0
	start := time.Now()
	err = boundSend(nc, src, all, c.duration, &n)
	return float64(n) / time.Since(start).Seconds(), err
}

func boundSend(nc net.Conn, src []byte, all bool, d time.Duration, n *int) error {
	for end := time.Now().Add(d); time.Now().Before(end); *n += len(src) {
		for at := 0; all && at < len(src); at += boundFPDU {
			crc32c.Update(0, src[at:][:boundFPDU])
		}
		if _, err := nc.Write(src); err != nil {
			return err
		}
	}
	return nil
}

// boundSocket gives the socket the congestion control that the other rows have.
// Both ends of both rounds get the same: where none may be set, the system's.
func boundSocket(_, _ string, rc syscall.RawConn) error {
	if tcpinfo.SetCongestion(rc, "cubic") != nil {
		_ = tcpinfo.SetCongestion(rc, "reno")
	}
	return nil
}

// boundServe is the receiver, which ends with the first connection.
func boundServe(all bool) error {
	lc := net.ListenConfig{Control: boundSocket}
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	defer nc.Close()
	buf, dst := make([]byte, boundRead), make([]byte, boundDest)
	have, to := 0, 0
	for {
		n, err := nc.Read(buf[have:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !all {
			continue
		}
		rd := 0
		for have += n; have-rd >= boundFPDU; rd += boundFPDU {
			fpdu := buf[rd:][:boundFPDU]
			crc32c.Update(0, fpdu)
			if to+boundFPDU > len(dst) {
				to = 0
			}
			to += fastcopy.Copy(dst[to:], fpdu)
		}
		have = copy(buf, buf[rd:have])
	}
}
