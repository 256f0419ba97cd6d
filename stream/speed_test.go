package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/internal/procstat"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// speedPeer is the environment of a process that is the other end of TestSpeed: "tcp" or "stream".
const speedPeer = "IWARP_STREAM_SPEED_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(speedPeer); kind != "" {
		if err := serveSpeed(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A workload is what TestSpeed measures: the client's part of so many turns, and the server's.
type workload struct {
	name string
	size int
	// turns is about what a sample has.
	turns  int
	client func(c net.Conn, p []byte, turns int) error
	server func(c net.Conn, p []byte, turns int) error
}

var workloads = []workload{
	{name: "write 1 MiB", size: 1 << 20, turns: 1000, client: writeTurns, server: readTurns},
	{name: "write 128 KiB", size: 128 << 10, turns: 6000, client: writeTurns, server: readTurns},
	{name: "write 64 KiB", size: 64 << 10, turns: 10000, client: writeTurns, server: readTurns},
	{
		name: "io.Copy, 32 KiB", size: 32 << 10, turns: 20000, client: writeTurns,
		server: func(c net.Conn, p []byte, turns int) error {
			_, err := io.Copy(io.Discard, io.LimitReader(c, int64(turns*len(p))))
			return err
		},
	},
	{name: "write 4 KiB", size: 4 << 10, turns: 50000, client: writeTurns, server: readTurns},
	{name: "write 100", size: 100, turns: 100000, client: writeTurns, server: readTurns},
	{name: "ping-pong 100", size: 100, turns: 10000, client: func(c net.Conn, p []byte, turns int) error {
		for range turns {
			if _, err := c.Write(p); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, p); err != nil {
				return err
			}
		}
		return nil
	}, server: func(c net.Conn, p []byte, turns int) error {
		for range turns {
			if _, err := io.ReadFull(c, p); err != nil {
				return err
			}
			if _, err := c.Write(p); err != nil {
				return err
			}
		}
		return nil
	}},
}

func writeTurns(c net.Conn, p []byte, turns int) error {
	for range turns {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func readTurns(c net.Conn, p []byte, turns int) error {
	for range turns {
		if _, err := io.ReadFull(c, p); err != nil {
			return err
		}
	}
	return nil
}

// serveSpeed serves one connection at a time from the listener that is descriptor 3.
func serveSpeed(kind string) error {
	halfTheProcessors()
	ln, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	if kind == "stream" {
		if ln, err = NewListener(ln, nil); err != nil {
			return err
		}
	}
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	var h [8]byte
	for {
		if _, err := io.ReadFull(c, h[:]); err != nil {
			return nil //nolint:nilerr // the end
		}
		w, turns := workloads[binary.BigEndian.Uint32(h[:])], binary.BigEndian.Uint32(h[4:])
		if err := w.server(c, make([]byte, w.size), int(turns)); err != nil {
			return err
		}
		if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(procstat.Now().CPU))); err != nil {
			return err
		}
	}
}

// halfTheProcessors is for two processes that run at once: each would wake threads where the other one runs.
func halfTheProcessors() { runtime.GOMAXPROCS(max(runtime.NumCPU()/2, 1)) }

// TestSpeed measures streams beside plain TCP, between two processes, on loopback and on networks:
//
//	IWARP_STREAM_SPEED=9 go test -run TestSpeed -v ./stream
//
// The number is of rounds. A round has a sample of each, in turn; the result is the median of the rounds' ratios.
func TestSpeed(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("IWARP_STREAM_SPEED"))
	if rounds == 0 {
		t.Skip("IWARP_STREAM_SPEED is not set: measuring takes a quiet machine")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	halfTheProcessors()
	t.Run("loopback", func(t *testing.T) {
		measureSpeed(t, rounds, speedHost{
			listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
			do:     func(f func() error) error { return f() },
			start:  func(cmd *exec.Cmd) error { return cmd.Start() },
		})
	})
	for _, mtu := range []int{1500, 9000} {
		t.Run("MTU "+strconv.Itoa(mtu), func(t *testing.T) {
			hosts := netpair.Need(t, &netpair.Config{MTU: mtu})
			measureSpeed(t, rounds, speedHost{listen: hosts.B.Listen, do: hosts.A.Do, start: hosts.B.Start})
		})
	}
}

type speedHost struct {
	listen func() (net.Listener, error)
	do     func(func() error) error
	start  func(*exec.Cmd) error
}

func measureSpeed(t *testing.T, rounds int, host speedHost) {
	var ends [2]net.Conn
	for i, kind := range []string{"tcp", "stream"} {
		ends[i] = dialSpeed(t, host, kind)
	}
	only := os.Getenv("IWARP_STREAM_WORKLOAD")
	for i, w := range workloads {
		if only != "" && only != w.name {
			continue
		}
		p := make([]byte, w.size)
		var h [8]byte
		binary.BigEndian.PutUint32(h[:], uint32(i))
		// sample returns the time of a turn, and the processor time of both ends for it.
		peerCPU := [2]uint64{}
		sample := func(k, turns int) (took, cpu float64) {
			c := ends[k]
			binary.BigEndian.PutUint32(h[4:], uint32(turns))
			used, began := procstat.Now().CPU, time.Now()
			_, err := c.Write(h[:])
			err = errors.Join(err, w.client(c, p, turns))
			var answer [8]byte
			_, err2 := io.ReadFull(c, answer[:])
			if err = errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			took, cpu = float64(time.Since(began)), float64(procstat.Now().CPU-used)
			old := peerCPU[k]
			peerCPU[k] = binary.BigEndian.Uint64(answer[:])
			return took / float64(turns), (cpu + float64(peerCPU[k]-old)) / float64(turns)
		}
		var ratios, cpuRatios []float64
		var times, cpus [2][]float64
		for r := range rounds {
			var took, cpu [2]float64
			for k := range ends {
				k = (k + r) % 2
				sample(k, w.turns/20)
				took[k], cpu[k] = sample(k, w.turns/4)
				times[k], cpus[k] = append(times[k], took[k]/1e3), append(cpus[k], cpu[k]/1e3)
			}
			ratios, cpuRatios = append(ratios, took[0]/took[1]), append(cpuRatios, cpu[1]/cpu[0])
		}
		slices.Sort(ratios)
		t.Logf("%-16s us: tcp %8.2f, stream %8.2f; of tcp %.2f (%.2f..%.2f); cpu us: tcp %8.2f, stream %8.2f, ratio "+
			"%.2f",
			w.name,
			median(times[0]), median(times[1]), median(ratios), ratios[0], ratios[rounds-1], median(cpus[0]), median(
				cpus[1],
			), median(cpuRatios))
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// dialSpeed starts a process that is the other end, and connects to it.
func dialSpeed(t *testing.T, host speedHost, kind string) (c net.Conn) {
	ln, err := host.listen()
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := ln.(*net.TCPListener).SyscallConn(); err == nil {
		_ = tcpsock.SetCongestion(raw, "cubic")
	}
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	defer f.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), speedPeer+"="+kind)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stderr = os.Stderr
	if err := host.start(cmd); err != nil {
		t.Fatal(err)
	}
	err = host.do(func() (err error) {
		c, err = (&net.Dialer{Control: cubic}).Dial("tcp", ln.Addr().String())
		return err
	})
	if err == nil && kind == "stream" {
		c, err = Client(context.Background(), c, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return c
}
