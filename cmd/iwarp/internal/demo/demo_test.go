package demo

import (
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

func TestDemo(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--markers"}, {"--rev", "1"}, {"--rtr", "read"}, {"--rtr", "none", "--private", "01"}, {"--crc", "off"},
	} {
		out := cmdtest.NewLines()
		if code := Main(cmdtest.Context(t), append([]string{"demo", "--bytes", "5M"}, args...), out,
			out); code != ui.ExitOK {
			t.Errorf("%v: exit code %d:\n%s", args, code, out)
		}
		cmdtest.MustContain(t, "demo", out.String(), "Terminate: DDP tagged buffer: invalid STag (1/1/00)", "5 MiB in ",
			"All of it went as it should")
	}
}

// A demo that fails leaves nothing behind.
func TestDemoFails(t *testing.T) {
	out := cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), []string{"demo", "--ord", "0"}, out, out); code != ui.ExitFailed {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "demo", out.String(), "iwarp: RDMA Read: ")
}
