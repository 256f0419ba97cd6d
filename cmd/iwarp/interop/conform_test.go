package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
)

// TestConformSiw runs the conformance kit against siw: as initiator against
// rping -s -P, as responder for loops of rping -c. It logs every case that fails.
// siw's deviations do not fail the test (docs/conform.md explains them): that no
// good connection can be had, or that the kit judges too little, does.
// IWARP_CONFORM_RUN is a pattern of the cases to run; what went over the wire is
// logged then too. It takes minutes, and guests may be lost on the way: by hand only.
func TestConformSiw(t *testing.T) {
	wanted(t)
	if os.Getenv("IWARP_CONFORM_SIW") == "" {
		t.Skip("IWARP_CONFORM_SIW is not set: the conformance kit against siw runs by hand, see docs/conform.md")
	}
	for _, variant := range []string{"default", "crc", "p2p"} {
		// rping -P takes one client at a time.
		opts := kit.Options{
			ULP: kit.Rping, Gentle: true, Run: os.Getenv("IWARP_CONFORM_RUN"),
			Parallel: 1, Timeout: 2 * time.Second, Patience: 15 * time.Second, Wait: 10 * time.Second,
		}
		t.Run("initiator/"+variant, func(t *testing.T) {
			conformSiw(t, variant, opts, 100, rpingServer)
		})
		// A client that waits for its peer is ended after a while: see rpingClients.
		opts.Role, opts.Wait = kit.Responder, 45*time.Second
		t.Run("responder/"+variant, func(t *testing.T) {
			conformSiw(t, variant, opts, 50, rpingClients)
		})
	}
}

// conformSiw runs the cases in as many guests as it takes. connect gives the
// connections with a guest.
func conformSiw(t *testing.T, variant string, opts kit.Options, least int,
	connect func(*testing.T, *Guest) (kit.Connector, *Job),
) {
	left, err := kit.Select(&opts)
	if err != nil {
		t.Fatal(err)
	}
	const guests = 12
	results := map[kit.Status]int{}
	passed, crashes, all := 0, 0, len(left)
	for n := 1; len(left) > 0; n++ {
		if n > guests {
			t.Errorf("%d guests were not enough: %d cases are left, %s first", guests, len(left), left[0].ID)
			break
		}
		g := Up(t, variant)
		c, job := connect(t, g)
		done, lost := conformGuest(t, g, c, job, opts, left)
		for i := range done {
			r := &done[i]
			results[r.Status]++
			if r.Status == kit.Pass {
				passed++
			}
			if r.Status == kit.Fail || r.Status == kit.Inconclusive {
				t.Logf("%s\t%s\t%s\t%v", r.Status, r.Case.ID, r.Reason, r.Case.Rules)
				if opts.Run != "" {
					t.Logf("%s", strings.Join(r.Log, "\n"))
				}
			}
		}
		if lost != "" {
			crashes++
			console, _ := os.ReadFile(filepath.Join(g.dir, "console"))
			t.Logf("guest %d was lost at %s: %s", n, lost, bugLine(console))
		}
		left = left[len(done):]
		g.down(t)
	}
	t.Logf("%d cases: %d pass, %d fail, %d not applicable, %d inconclusive; guests lost: %d", all,
		results[kit.Pass], results[kit.Fail], results[kit.NotApplicable], results[kit.Inconclusive], crashes)
	if opts.Run == "" && passed < least {
		t.Errorf("only %d cases passed: the kit, the guest or rping is broken", passed)
	}
}

// rpingServer starts rping -s in the guest.
func rpingServer(t *testing.T, g *Guest) (kit.Connector, *Job) {
	number, addr := g.Port(t)
	dial := kit.Dial("tcp", addr)
	connect := func(ctx context.Context) (net.Conn, error) {
		nc, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return &settled{Conn: nc}, nil
	}
	return connect, g.Serve(t, number, fmt.Sprintf("rping -s -P -a %s -p %s", guestAddr, number))
}

// rpingClients starts loops of rping -c in the guest.
func rpingClients(t *testing.T, g *Guest) (kit.Connector, *Job) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(ln) })
	// A client whose peer is silent may wait for it without end.
	loops := fmt.Sprintf("for _ in 1 2 3 4; do while :; do timeout 20 rping -c -a %s -p %s -C 1; sleep 0.05; done & "+
		"done; wait",
		hostAddr, port(ln.Addr().String()))
	return kit.Accept(ln), g.Start(t, loops+" > /dev/null 2>&1")
}

// conformGuest runs cases in their order, until the guest's kernel has failed or
// what connects there has ended. It gives the results so far and the case, if any,
// at which that was.
func conformGuest(t *testing.T, g *Guest, connect kit.Connector, job *Job, opts kit.Options,
	cases []*kit.Case,
) (done []kit.Result, lost string) {
	t.Helper()
	for _, c := range cases {
		one := opts
		one.Run = "^" + regexp.QuoteMeta(c.ID) + "$"
		r, err := kit.Run(t.Context(), connect, &one)
		if err != nil {
			if len(done) == 0 {
				t.Fatalf("no good connection in a fresh guest: %v; rping printed:\n%s", err, job.Output())
			}
			return done, done[len(done)-1].Case.ID + " (no good connection afterwards)"
		}
		i := slices.IndexFunc(r.Results, func(r kit.Result) bool { return r.Case.ID == c.ID })
		if i < 0 {
			t.Fatalf("%s was not run", c.ID)
		}
		done = append(done, r.Results[i])
		if g.broken() {
			return done, c.ID
		}
		select {
		case <-job.done:
			return done, c.ID + " (rping ended)"
		default:
		}
	}
	return done, ""
}

// settled holds the third write and later ones, which follow Request and RTR, until
// siw has surely reported the connection to its program: a mistake, or an end, before
// that stops the kernel in a BUG of iwcm.c.
type settled struct {
	net.Conn
	mu     sync.Mutex
	writes int
}

func (c *settled) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	if c.writes == 3 {
		time.Sleep(60 * time.Millisecond)
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func bugLine(console []byte) string {
	for line := range strings.Lines(string(console)) {
		if strings.Contains(line, "kernel BUG") || strings.Contains(line, "BUG:") || strings.Contains(line, "Oops") {
			return strings.TrimSpace(line)
		}
	}
	return "the console says nothing"
}
