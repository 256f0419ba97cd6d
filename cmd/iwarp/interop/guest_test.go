package interop

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	guestAddr = "10.0.2.15" // the guest, as it sees itself
	hostAddr  = "10.0.2.2"  // 127.0.0.1 of this machine, as the guest sees it

	guestPorts     = 64 // that can be reached from here, for each guest
	firstGuestPort = 7001

	commandTime = 60 * time.Second // for one program in the guest; emulation is slow
)

// Exit codes of guest.sh that mean "not here" and not "broken".
const (
	exitCannotRun = 3
	exitNoImage   = 4
)

// Guest is a running guest.
type Guest struct {
	Variant string
	dir     string
	shell   string   // address of the command server
	ports   []string // addresses here that lead to the guest's ports, in their order

	mu   sync.Mutex
	used int
}

// Up boots a guest with the variant of siw, for the length of the test. It skips
// the test, with the reason, where no guest can be had.
func Up(t *testing.T, variant string) *Guest {
	t.Helper()
	wanted(t)
	// Another process may take a free port before QEMU does.
	for attempt := 1; ; attempt++ {
		g := &Guest{Variant: variant, dir: t.TempDir()}
		out, err := g.boot(t)
		if err == nil {
			t.Logf("%s", bytes.TrimSpace(out))
			t.Cleanup(func() { g.down(t) })
			g.slow(t)
			return g
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && (exit.ExitCode() == exitCannotRun || exit.ExitCode() == exitNoImage) {
			t.Skipf("no guest: %s", bytes.TrimSpace(out))
		}
		if attempt == 3 || !bytes.Contains(out, []byte("host forwarding")) {
			t.Fatalf("guest does not come up: %v\n%s", err, out)
		}
	}
}

// wanted skips the test where nobody asked for a guest.
func wanted(t *testing.T) {
	t.Helper()
	if os.Getenv("IWARP_INTEROP") != "1" {
		t.Skip("boots a guest, which takes a while: set IWARP_INTEROP=1")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the guest needs Linux, this is", runtime.GOOS)
	}
}

func (g *Guest) boot(t *testing.T) ([]byte, error) {
	addrs := freeAddrs(t, guestPorts+1)
	g.shell, g.ports = addrs[0], addrs[1:]
	args := []string{"up", "--variant", g.Variant, "--run", g.dir, "--shell", port(g.shell), "--life", "1000"}
	for i, a := range g.ports {
		args = append(args, "--forward", fmt.Sprintf("%s:%d", port(a), firstGuestPort+i))
	}
	return guestScript(t, args...).CombinedOutput()
}

// slow delays what the guest sends. siw as a responder sometimes overlooks an
// RTR that follows its Reply very fast, until something else arrives; it seems to
// prepare for the RTR only after it has sent the Reply. A program that waits for
// siw's first message then waits for ever.
func (g *Guest) slow(t *testing.T) {
	t.Helper()
	g.Exec(t, "tc qdisc add dev eth0 root netem delay 10ms")
}

func (g *Guest) down(t *testing.T) {
	if t.Failed() {
		if console, err := os.ReadFile(filepath.Join(g.dir, "console")); err == nil {
			t.Logf("the guest's console:\n%s", tail(console))
		}
	}
	// Not guestScript: the test's context has ended by now.
	if out, err := exec.Command("./guest.sh", "down", "--run", g.dir).CombinedOutput(); err != nil {
		t.Errorf("guest.sh down: %v\n%s", err, out)
	}
}

// broken reports whether the guest's kernel has failed.
func (g *Guest) broken() bool {
	console, err := os.ReadFile(filepath.Join(g.dir, "console"))
	return err == nil && (bytes.Contains(console, []byte("kernel BUG")) || bytes.Contains(console, []byte("Oops:")))
}

func guestScript(t *testing.T, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "./guest.sh", args...)
}

// Port takes a port of the guest that nothing has used before: its number there
// and the address here that leads to it.
func (g *Guest) Port(t *testing.T) (number, addr string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used == len(g.ports) {
		t.Fatal("no port of the guest is left: raise guestPorts")
	}
	g.used++
	return strconv.Itoa(firstGuestPort + g.used - 1), g.ports[g.used-1]
}

// Exec runs a shell command in the guest until it ends, and fails the test if
// that takes too long or the command fails. It gives what the command printed.
func (g *Guest) Exec(t *testing.T, command string) string {
	t.Helper()
	job := g.Start(t, command)
	return job.MustEnd(t)
}

// Serve starts a server in the guest and waits until it listens on the port of
// that number.
func (g *Guest) Serve(t *testing.T, port, command string) *Job {
	t.Helper()
	job := g.Start(t, command)
	// ss also lists the sockets of the kernel, which is where siw listens. Trying
	// to connect would not do: the address here always accepts, and some of the
	// programs serve one connection only.
	wait := g.Start(t,
		fmt.Sprintf("for _ in {1..200}; do [[ $(ss -Hltn 'sport = :%s') ]] && exit; sleep 0.05; done; exit 1", port))
	if status, err := wait.End(t.Context()); status != 0 || err != nil {
		t.Fatalf("%s does not listen on port %s: status %d, %v; it printed:\n%s", command, port, status, err,
			job.Output())
	}
	return job
}

// Job is a command that runs in the guest.
type Job struct {
	command string
	conn    net.Conn
	done    chan struct{}

	mu  sync.Mutex
	out []byte

	status int   // valid after done
	err    error // likewise
}

// Start starts a shell command in the guest. It and all that it started end with
// the test at the latest.
func (g *Guest) Start(t *testing.T, command string) *Job {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", g.shell)
	if err != nil {
		t.Fatalf("guest: %v", err)
	}
	if _, err := fmt.Fprintln(conn, base64.StdEncoding.EncodeToString([]byte(command))); err != nil {
		t.Fatalf("guest: %v", err)
	}
	j := &Job{command: command, conn: conn, done: make(chan struct{})}
	go j.read()
	t.Cleanup(func() { j.Stop() })
	return j
}

// trailer is what the guest's agent puts behind a command's output.
var trailer = regexp.MustCompile(`\n\x1eexit (\d+)\n$`)

func (j *Job) read() {
	defer close(j.done)
	buf := make([]byte, 4096)
	for {
		n, err := j.conn.Read(buf)
		j.mu.Lock()
		j.out = append(j.out, buf[:n]...)
		j.mu.Unlock()
		if err == nil {
			continue
		}
		m := trailer.FindSubmatch(j.out)
		if m == nil {
			j.err = fmt.Errorf("guest: %s: ended without a status: %w", j.command, err)
			return
		}
		j.status, _ = strconv.Atoi(string(m[1]))
		j.mu.Lock()
		j.out = j.out[:len(j.out)-len(m[0])]
		j.mu.Unlock()
		return
	}
}

// Output is what the command has printed so far, on both its streams.
func (j *Job) Output() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.out)
}

// End waits for the command's end, at most commandTime.
func (j *Job) End(ctx context.Context) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	select {
	case <-j.done:
		return j.status, j.err
	case <-ctx.Done():
		return 0, fmt.Errorf("guest: %s: still runs: %w", j.command, ctx.Err())
	}
}

// MustEnd waits for the command's end, which must be in time and successful, and
// gives what it printed.
func (j *Job) MustEnd(t *testing.T) string {
	t.Helper()
	status, err := j.End(t.Context())
	if err != nil || status != 0 {
		t.Fatalf("%s: status %d, %v; it printed:\n%s", j.command, status, err, j.Output())
	}
	return j.Output()
}

// Stop ends the command and all that it started, if it still runs.
func (j *Job) Stop() {
	_ = j.conn.Close()
	<-j.done
}

// freeAddrs returns addresses of this machine's loopback that were free just now.
func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer closeQuietly(l) // held until all are found, so that none is given twice
		addrs[i] = l.Addr().String()
	}
	return addrs
}

func closeQuietly(c io.Closer) { _ = c.Close() }

// port is the port of an address.
func port(addr string) string {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // the addresses come from this file
	}
	return p
}

// tail is the end of a long text.
func tail(b []byte) []byte {
	const most = 4000
	if len(b) <= most {
		return b
	}
	return b[len(b)-most:]
}
