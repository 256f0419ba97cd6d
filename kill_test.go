package iwarp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// childEnv has the address that the test binary, run again as a child, dials.
const childEnv = "IWARP_TEST_CHILD"

// childMain writes for ever: somebody kills it.
func childMain() {
	if err := childWrites(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

func childWrites() error {
	ctx := context.Background()
	c, err := iwarp.Dial(ctx, "tcp", os.Getenv(childEnv), nil)
	if err != nil {
		return err
	}
	var b [12]byte
	if _, err := c.Recv(ctx, b[:]); err != nil {
		return err
	}
	to := iwarp.RemoteBuffer{STag: iwarp.STag(binary.BigEndian.Uint32(b[:])), TO: binary.BigEndian.Uint64(b[4:])}
	for i := 0; ; i++ {
		if err := c.RDMAWrite(ctx, make([]byte, killSize), to); err != nil {
			return err
		}
		if i == 10 {
			if err := c.Send(ctx, []byte("running")); err != nil {
				return err
			}
		}
	}
}

const killSize = 100_000

// A peer that is killed leaves an error, and no hanging call.
// Shows: MPA-8-01, DDP-6.2.2-01, DDP-6.2.2-02
func TestKilledPeer(t *testing.T) {
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	cmd := exec.CommandContext(t.Context(), must(os.Executable())(t))
	cmd.Env = append(os.Environ(), childEnv+"="+ln.Addr().String())
	cmd.Stderr = os.Stderr
	check(t, "start the child", cmd.Start())
	c := must(ln.Accept(testContext(t)))(t)
	defer c.Abort()
	mr := must(c.NewMR(make([]byte, killSize), iwarp.RemoteWrite))(t)
	defer mr.Close()
	b := binary.BigEndian.AppendUint32(nil, uint32(mr.STag()))
	check(t, "Send", c.Send(testContext(t), binary.BigEndian.AppendUint64(b, mr.Remote().TO)))
	wantRecv(t, c, "running")
	blocked := make(chan error, 1)
	go func() {
		_, err := c.Recv(context.Background(), make([]byte, 1000))
		blocked <- err
	}()
	check(t, "kill the child", cmd.Process.Kill())
	_ = cmd.Wait()
	err := <-blocked
	if !errors.Is(err, io.EOF) { // a FIN between FPDUs cannot be told from a graceful end
		wantCode(t, err, protocol.MPAConnectionLost, false)
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v is not net.ErrClosed", err)
		}
	}
	check(t, "Close", c.Close())
}
