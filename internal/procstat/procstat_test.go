package procstat

import (
	"os"
	"runtime"
	"testing"
)

func TestNow(t *testing.T) {
	before := Now()
	for range 100 {
		if _, err := os.ReadFile("procstat.go"); err != nil {
			t.Fatal(err)
		}
	}
	used := Now().Sub(before)
	if used.CPU < 0 {
		t.Errorf("processor time %v", used.CPU)
	}
	if runtime.GOOS == "linux" && used.Calls < 100 {
		t.Errorf("%d calls for reading a file 100 times", used.Calls)
	}
}
