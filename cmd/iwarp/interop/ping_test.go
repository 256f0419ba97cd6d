package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const pingCount = 5

// pingSizes: rping takes 23 (its header, with the number of the round) to 65535
// octets; the largest is several FPDUs.
func pingSizes() []int { return []int{23, 64, 1461, 65535} }

// rping ends with status 0 also when the connection broke in the middle, so what
// it printed decides: a line for each round.
func wantPings(t *testing.T, out, line string, count int) {
	t.Helper()
	for i := range count {
		wantOutput(t, out, fmt.Sprintf("%s rdma-ping-%d: ", line, i))
	}
	for _, bad := range []string{"mismatch", "failed", "error", "wait for RDMA_WRITE", "wait for RDMA_READ_COMPLETE"} {
		if strings.Contains(out, bad) {
			t.Errorf("%q in the output:\n%s", bad, out)
		}
	}
}

func testRpingClient(t *testing.T, g *Guest, s setting) {
	p := startPing(t, s)
	for _, size := range pingSizes() {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			out := g.Exec(t, rpingClient(port(p.addr), size))
			wantPings(t, out, "ping data:", pingCount)
		})
	}
	p.stop(t)
}

func testRpingClients(t *testing.T, g *Guest, s setting) {
	p := startPing(t, s)
	var jobs []*Job
	for range 4 {
		jobs = append(jobs, g.Start(t, rpingClient(port(p.addr), 4096)))
	}
	for _, j := range jobs {
		wantPings(t, j.MustEnd(t), "ping data:", pingCount)
	}
	p.stop(t)
}

func rpingClient(port string, size int) string {
	return fmt.Sprintf("timeout 50 rping -c -a %s -p %s -C %d -S %d -v -V", hostAddr, port, pingCount, size)
}

func testRpingServer(t *testing.T, g *Guest, s setting) {
	for _, size := range pingSizes() {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			number, addr := g.Port(t)
			// The server's buffer has the size that it is told, whatever the client says.
			job := g.Serve(t, number, fmt.Sprintf("rping -s -a %s -p %s -S %d -v", guestAddr, number, size))
			runPing(t, s, addr, "--count", strconv.Itoa(pingCount), "--size", strconv.Itoa(size))
			wantPings(t, job.MustEnd(t), "server ping data:", pingCount)
		})
	}
}

// One client after another: of several at the same moment, rping -P fails to
// accept some ("rdma_accept: Invalid argument") and leaves them without an answer.
func testRpingPersistent(t *testing.T, g *Guest, s setting) {
	number, addr := g.Port(t)
	g.Serve(t, number, fmt.Sprintf("rping -s -P -a %s -p %s -S 4096", guestAddr, number))
	for _, flags := range [][]string{
		nil,
		{"--rtr", "none"},
		{"--rtr", "read"},
		{"--rtr", "send,write"},
		{"--ird", "1", "--ord", "1"},
		{"--private", "cafe"},
	} {
		runPing(t, s, addr, append([]string{"--count", "3", "--size", "4096"}, flags...)...)
	}
}

// flags are the tool's for the setting.
func (s setting) flags() []string {
	crc := "on"
	if s.noCRC {
		crc = "off"
	}
	return []string{"--crc", crc, "--timeout", exchangeTime.String()}
}

var tool struct {
	once sync.Once
	path string
	err  error
}

// iwarpTool builds the project's command, once for all tests.
func iwarpTool(t *testing.T) string {
	t.Helper()
	tool.once.Do(func() {
		dir, err := os.MkdirTemp("", "iwarp-interop-") //nolint:usetesting // outlives this test
		if err != nil {
			tool.err = err
			return
		}
		tool.path = filepath.Join(dir, "iwarp")
		if out, err := exec.Command("go", "build", "-o", tool.path, "..").CombinedOutput(); err != nil {
			tool.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if tool.err != nil {
		t.Fatalf("building the command: %v", tool.err)
	}
	return tool.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if tool.path != "" {
		_ = os.RemoveAll(filepath.Dir(tool.path))
	}
	os.Exit(code)
}

// runPing runs the client, which must be content.
func runPing(t *testing.T, s setting, addr string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	args = append(append([]string{"ping", addr}, s.flags()...), args...)
	if out, err := exec.CommandContext(ctx, iwarpTool(t), args...).CombinedOutput(); err != nil {
		t.Errorf("iwarp %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// pingServer is a running `iwarp ping --serve`.
type pingServer struct {
	addr string
	cmd  *exec.Cmd
	out  *bytes.Buffer // valid after eof
	eof  chan struct{}
}

// startPing starts the server and waits until it takes connections.
func startPing(t *testing.T, s setting) *pingServer {
	t.Helper()
	p := &pingServer{addr: freeAddrs(t, 1)[0], out: new(bytes.Buffer), eof: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), iwarpTool(t), append([]string{"ping", "--serve", p.addr}, s.flags()...)...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan struct{})
	go func() {
		defer close(p.eof)
		lines := bufio.NewScanner(stdout)
		for first := true; lines.Scan(); first = false {
			if first {
				close(listening)
			}
			p.out.Write(lines.Bytes())
			p.out.WriteByte('\n')
		}
	}()
	select {
	case <-listening: // its first line says where it listens
	case <-p.eof:
		t.Fatalf("iwarp ping --serve ended: %v\n%s", p.cmd.Wait(), p.out)
	}
	if c, err := net.Dial("tcp", p.addr); err != nil { // a client that says nothing harms nobody else
		t.Fatal(err)
	} else {
		t.Cleanup(func() { closeQuietly(c) })
	}
	return p
}

// stop ends the server as its user would; it must end with status 0.
func (p *pingServer) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-p.eof
	if err := p.cmd.Wait(); err != nil || t.Failed() {
		t.Errorf("iwarp ping --serve: %v; it printed:\n%s", err, p.out)
	}
}
