package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of module sctp that need an SCTP of the kernel pass in the guest, whose kernel has one: alone,
// and as the peer of the SCTP in user space, encapsulated in UDP (RFC 6951).
func TestKernelSCTP(t *testing.T) {
	g := Up(t, "default")
	bin := filepath.Join(t.TempDir(), "sctp.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-o", bin, ".")
	build.Dir = "../../../sctp"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put(t, g, bin, "/tmp/sctp.test")
	const encapsulation = "9899"
	g.Exec(t, "modprobe sctp; sysctl -q -w net.sctp.udp_port="+encapsulation)
	// Of encapsulated packets that Linux 6.1 leaves to be segmented later, all but the last got lost.
	g.Exec(t, "ethtool -K lo gso off tx-sctp-segmentation off")
	out := g.Exec(t, "cd /tmp && IWARP_KERNEL_SCTP=1 IWARP_KERNEL_SCTP_UDP="+encapsulation+
		" timeout 55 ./sctp.test -test.run '^TestKernel' -test.v")
	t.Log(out)
	for _, name := range []string{"Operations", "Terminate", "Streams", "OtherIndication", "Abort", "AndUserSpace"} {
		if !strings.Contains(out, "--- PASS: TestKernel"+name+" ") {
			t.Errorf("TestKernel%s has not passed", name)
		}
	}
}

// put copies a file into the guest.
func put(t *testing.T, g *Guest, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(l)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = nc.Write(b)
		_ = nc.Close()
	}()
	g.Exec(t, fmt.Sprintf("cat </dev/tcp/%s/%s >%s && chmod +x %s && [[ $(stat -c %%s %s) == %d ]]", hostAddr,
		port(l.Addr().String()), to, to, to, len(b)))
}
