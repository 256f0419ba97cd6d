//go:build race

package fastcopy

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The race detector sees what Copy reads and writes, of any length: the code that
// ships runs under it.
func TestRaceDetectorSeesCopy(t *testing.T) {
	if os.Getenv("FASTCOPY_RACE") != "" {
		src, dst := make([]byte, 4096), make([]byte, 4096)
		done := make(chan struct{})
		go func() {
			Copy(dst, src)
			close(done)
		}()
		switch os.Getenv("FASTCOPY_RACE") {
		case "write":
			dst[4000] = 1
		case "read":
			src[4000] = 1
		}
		<-done
		return
	}
	for _, what := range []string{"write", "read"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRaceDetectorSeesCopy$")
		cmd.Env = append(os.Environ(), "FASTCOPY_RACE="+what)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "DATA RACE") {
			t.Errorf("%s: the race is not reported: %v\n%s", what, err, out)
		}
	}
}
