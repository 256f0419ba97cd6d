//go:build unix

package fault_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/internal/crc32c"
	"github.com/go-iwarp/iwarp/internal/fastcopy"
	"github.com/go-iwarp/iwarp/internal/fault"
)

// gone is memory of a file of which only the first page is left.
func gone(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	page := os.Getpagesize()
	if err := os.WriteFile(path, make([]byte, 8*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 8*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := f.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	return mem
}

// Every way to copy and to sum up that the library has, at the lengths where it
// changes its means.
func TestFaults(t *testing.T) {
	mem, page := gone(t), os.Getpagesize()
	for _, n := range []int{1, 8, 15, 16, 64, 127, 128, 511, 512, 1448, 4096, 4097, 16384} {
		own := make([]byte, n)
		for _, from := range []int{page - n/2, page, page + 1, page + 13} {
			if from < 0 {
				continue
			}
			other := mem[from:][:n]
			for name, f := range map[string]func() error{
				"Copy to":   func() error { _, err := fault.Copy(other, own); return err },
				"Copy from": func() error { _, err := fault.Copy(own, other); return err },
				"built in":  func() error { return try(func() { copy(own, other) }) },
				"fast copy": func() error { return try(func() { fastcopy.Copy(other, own) }) },
				"CRC":       func() error { return try(func() { crc32c.Update(0, other) }) },
				"CRC copy":  func() error { return try(func() { crc32c.Copy(0, own, other) }) },
			} {
				err := f()
				if e, ok := err.(*fault.Error); !ok || !e.Within(other) || e.Within(own) {
					t.Errorf("%s, %d octets from %d on: %v", name, n, from, err)
				}
			}
			// What comes after it works as ever.
			if crc32c.Update(0, []byte("123456789")) != 0xe3069283 || fmt.Sprintf("%.3f", float64(n)/8) == "" {
				t.Fatal("the processor is not as it was")
			}
		}
	}
}

func try(f func()) (err error) {
	defer func(was bool) {
		fault.Unguard(was)
		if e := fault.Of(recover()); e != nil {
			err = e
		}
	}(fault.Guard())
	f()
	return nil
}

func TestFind(t *testing.T) {
	mem, page := gone(t), os.Getpagesize()
	if e := fault.Find([][]byte{nil, mem[:page], make([]byte, 10)}); e != nil {
		t.Errorf("nothing is missing: %v", e)
	}
	for _, p := range [][]byte{mem, mem[page-1 : page+1], mem[page:], mem[page+1 : page+2]} {
		if e := fault.Find([][]byte{make([]byte, 10), mem[:page], p}); e == nil || !e.Within(p) ||
			e.Within(mem[:page]) {
			t.Errorf("%d octets: %v", len(p), e)
		}
	}
	if _, err := unix.Pwrite(-1, nil, 0); fault.IsFault(err) || !fault.IsFault(fmt.Errorf("wrapped: %w", unix.EFAULT)) {
		t.Error("IsFault")
	}
}

// A guard is of its time only, and other panics are not its business.
func TestGuardEnds(t *testing.T) {
	for _, was := range []bool{false, true} {
		before := debug.SetPanicOnFault(was)
		_, _ = fault.Copy(make([]byte, 8), gone(t)[os.Getpagesize():])
		fault.Find([][]byte{make([]byte, 8)})
		if now := debug.SetPanicOnFault(before); now != was {
			t.Errorf("faults panic: %t, and %t before", now, was)
		}
	}
	var none *int
	for name, f := range map[string]func(){
		"a nil pointer": func() { *none = 1 },
		"a value":       func() { panic("mine") },
		"an index":      func() { _ = make([]byte, 1)[len(name(none)):][0] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic is lost", name)
				}
			}()
			if err := try(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	if e := fault.Of(nil); e != nil {
		t.Error(e)
	}
}

func name(*int) string { return "two" }

func TestNoAllocation(t *testing.T) {
	src, dst := make([]byte, 1024), make([]byte, 1024)
	if n := testing.AllocsPerRun(100, func() { _, _ = fault.Copy(dst, src) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
