package cli

import "testing"

func TestDemo(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--markers"}, {"--rev", "1"}, {"--rtr", "read"}, {"--rtr", "none", "--private", "01"}, {"--crc", "off"},
	} {
		out := newLines()
		if code := Main(testContext(t), append([]string{"demo", "--bytes", "5M"}, args...), out, out); code != ExitOK {
			t.Errorf("%v: exit code %d:\n%s", args, code, out)
		}
		mustContain(t, "demo", out.String(), "Terminate: DDP tagged buffer: invalid STag (1/1/00)", "5 MiB in ", "All of it went as it should")
	}
}

// A demo that fails leaves nothing behind.
func TestDemoFails(t *testing.T) {
	out := newLines()
	if code := Main(testContext(t), []string{"demo", "--ord", "0"}, out, out); code != ExitFailed {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	mustContain(t, "demo", out.String(), "iwarp: RDMA Read: ")
}
