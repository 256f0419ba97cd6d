package pages

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestHuge(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 1 << 20, 3<<20 + 17} {
		b, huge := Huge(n)
		if len(b) != n || cap(b) != n {
			t.Fatalf("%d octets: %d of %d", n, len(b), cap(b))
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("%d octets: octet %d is %d", n, i, b[i])
			}
			b[i] = byte(i)
		}
		if huge && n < 1<<17 {
			t.Errorf("%d octets in a huge page", n)
		}
		runtime.GC()
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("%d octets: octet %d is %d after a collection", n, i, b[i])
			}
		}
	}
}

// What Huge says is what the system says.
func TestSaysTheTruth(t *testing.T) {
	before := inHugePages(t)
	b, huge := Huge(32 << 20)
	if !huge {
		t.Skip("no huge pages here")
	}
	if got := inHugePages(t) - before; got < 16<<20 {
		t.Errorf("%d octets of %d are in huge pages", got, len(b))
	}
	runtime.KeepAlive(b)
}

// inHugePages is how many octets of this process are.
func inHugePages(t *testing.T) int {
	s, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for l := range strings.Lines(string(s)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "AnonHugePages:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Skip("the system does not tell")
	return 0
}
