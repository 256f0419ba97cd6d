package netpair

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Without iproute2 the error says so.
func TestNoProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := New(nil); !errors.Is(err, ErrUnsupported) || !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without iproute2: %v", err)
	}
}

func TestCounter(t *testing.T) {
	for in, want := range map[string]uint64{
		"Ip: A\nIp: 1\nTcp: RtoMax InSegs RetransSegs\nTcp: -1 5 77\n": 77,
		"TcpExt: RetransSegs\nTcpExt: 1\nTcp: RetransSegs\nTcp: 0\n":   0,
	} {
		if n, err := counter([]byte(in), "Tcp:", "RetransSegs"); n != want || err != nil {
			t.Errorf("%q: %d, %v", in, n, err)
		}
	}
	for _, in := range []string{
		"", "Tcp: RetransSegs\n", "Tcp: A RetransSegs\nTcp: 1\n", "Tcp: RetransSegs\nTcp: x\n",
	} {
		if _, err := counter([]byte(in), "Tcp:", "RetransSegs"); err == nil {
			t.Errorf("%q: no error", in)
		}
	}
}

// Packets are steered to one processor, unless the kernel's way is asked for.
func TestSteering(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		p := Need(t, &Config{KernelSteering: kernel})
		cmd := exec.Command("sh", "-c",
			"mount -t sysfs sysfs /sys && cat /sys/class/net/"+device+"/queues/rx-*/rps_cpus")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := p.B.Output(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if none := strings.Trim(string(out), "0,\n") == ""; none != kernel {
			t.Errorf("left to the kernel: %v; processors that receive: %q", kernel, out)
		}
	}
}

func TestProcessorMask(t *testing.T) {
	for n, want := range map[int]string{0: "1", 1: "2", 31: "80000000", 32: "1,00000000", 65: "2,00000000,00000000"} {
		if got := processorMask(n); got != want {
			t.Errorf("processor %d: %q, not %q", n, got, want)
		}
	}
}

// The offloads are off where that is asked for.
func TestNoOffloads(t *testing.T) {
	p := Need(t, &Config{NoOffloads: true})
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip(err)
	}
	out, err := p.A.Output(exec.Command("ethtool", "-k", device))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tx-tcp-segmentation: off", "generic-segmentation-offload: off", "generic-receive-offload: off",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
