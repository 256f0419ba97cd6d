package bench

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// A bench server that is out of descriptors for a while says so once, and goes on
// afterwards; an error that does not pass ends it.
func TestBenchAcceptErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	none := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	defer cancel()
	var told []error
	c := &Command{}
	c.Startup.Timeout = ui.Wait(cmdtest.Patience)
	ended := make(chan error, 1)
	go func() {
		ended <- c.serveTelling(ctx, cmdtest.ErrorsFirst(ln, none, none, none), &iwarp.Config{},
			func(err error) { told = append(told, err) })
	}()
	// The server hangs up on what is no preface: it has taken the connection.
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = nc.Write([]byte(strings.Repeat("?", 100)))
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("the server answers: %d octets, %v", n, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(told) != 1 || !errors.Is(told[0], syscall.EMFILE) {
		t.Errorf("told: %v", told)
	}
	broken := errors.New("broken")
	if err := c.serveTelling(cmdtest.Context(t), cmdtest.ErrorsFirst(ln, broken), &iwarp.Config{}, nil); !errors.Is(err,
		broken) {
		t.Errorf("an error that does not pass: %v", err)
	}
}
