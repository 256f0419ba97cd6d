package bench

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/internal/crc32c"
)

// machine is what figures depend on.
type machine struct {
	Go        string   `json:"go"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	CPUs      int      `json:"cpus"`
	Processor string   `json:"processor"`
	Features  []string `json:"features"`
	Kernel    string   `json:"crc_kernel"`
}

func thisMachine() machine {
	return machine{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Processor: processor(), Features: crc32c.Features(), Kernel: crc32c.Kernel(),
	}
}

// processor is the processor's name, where Linux tells it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(name) {
		case "model name", "CPU part":
			if ok {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}

// machineEvent comes first.
type machineEvent struct {
	machine
	Peer *machine `json:"peer"`
}

func (e machineEvent) EventKind() string { return "machine" }

func (e machineEvent) Text() string {
	s := fmt.Sprintf("%s, %s/%s on %s (%s), CRC32c by %s [%s]", e.Go, e.OS, e.Arch, e.Processor,
		ui.Plural(uint64(e.CPUs), "processor"), e.Kernel, strings.Join(e.Features, " "))
	if p := e.Peer; p != nil && (p.Processor != e.Processor || p.Kernel != e.Kernel) {
		s += fmt.Sprintf("\nthe other end: %s, %s/%s on %s, CRC32c by %s", p.Go, p.OS, p.Arch, p.Processor, p.Kernel)
	}
	return s
}
