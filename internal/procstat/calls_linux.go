package procstat

import (
	"bytes"
	"os"
	"strconv"
)

// calls adds up the lines "syscr: N" and "syscw: N" of /proc/self/io.
func calls() (sum uint64) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if s := string(name); s == "syscr" || s == "syscw" {
			n, _ := strconv.ParseUint(string(value), 10, 64)
			sum += n
		}
	}
	return sum
}
