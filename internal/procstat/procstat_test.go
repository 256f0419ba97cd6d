package procstat

import (
	"os"
	"runtime"
	"testing"
)

func TestResidentAndFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux tells")
	}
	if n := Resident(); n < 1<<20 {
		t.Errorf("%d octets of memory", n)
	}
	if n, err := RaiseFiles(3); n < 3 || err != nil {
		t.Errorf("%d files: %v", n, err)
	}
	if _, err := RaiseFiles(1 << 62); err == nil {
		t.Error("more files than any kernel has")
	}
}

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
