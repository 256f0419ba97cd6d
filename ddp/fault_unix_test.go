//go:build unix

package ddp_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
)

// missing is memory whose first page is there and whose second is not.
func missing(t *testing.T) []byte {
	t.Helper()
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Mprotect(mem[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem
}

// A segment for memory that is not there is an error of the receiver, which locks
// nothing afterwards, wherever it goes and whether it is alone or within a batch.
// Shows: DDP-7.1-11, DDP-7.1-13
func TestGuard(t *testing.T) {
	page := os.Getpagesize()
	for name, start := range map[string]func(t *testing.T, s *sink,
		mem []byte) (segment func(off int, last bool, data string) []byte, end func()){
		"region": func(t *testing.T, s *sink, mem []byte) (func(int, bool, string) []byte, func()) {
			r := s.region(t, ddp.RegionConfig{Buf: mem, Access: ddp.RemoteWrite})
			return func(off int, last bool, data string) []byte {
				return segment(tagged(r.STag(), uint64(off), last), data)
			}, r.Invalidate
		},
		"sink": func(_ *testing.T, s *sink, mem []byte) (func(int, bool, string) []byte, func()) {
			k := s.table.NewSink()
			stag := k.Arm([][]byte{mem})
			s.up.sinks[stag] = k
			return func(off int, last bool, data string) []byte {
				return segment(tagged(stag, uint64(off), last), data)
			}, k.Close
		},
		"untagged": func(_ *testing.T, s *sink, mem []byte) (func(int, bool, string) []byte, func()) {
			s.q.post(mem)
			return func(off int, last bool, data string) []byte {
				return segment(untagged(0, 1, uint32(off), last), data)
			}, func() {}
		},
	} {
		for _, batched := range []bool{false, true} {
			for _, last := range []bool{false, true} {
				s := newSinkOf(ddp.ReceiverConfig{Peer: me, Batched: batched, Window: 4})
				mem := missing(t)
				seg, end := start(t, s, mem)
				whole := string(pattern(page-2, 1))
				calls := 0
				gone, err := s.Guard(func() error {
					for _, one := range [][]byte{
						seg(0, false, whole), seg(page-2, last, "12345"), seg(0, false, "never"),
					} {
						calls++
						if err := s.next(one); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil || calls != 2 {
					t.Fatalf("%s: %d calls, %v", name, calls, err)
				}
				wantCode(t, name, gone, protocol.DDPLocalCatastrophic)
				var f *fault.Error
				if !errors.As(gone, &f) || !f.Within(mem[page:]) || s.Err() != gone {
					t.Errorf("%s: %v, Err %v", name, gone, s.Err())
				}
				if gone.Offender == nil || int(gone.Offender.SegmentLength) != len(seg(0, last, "12345")) {
					t.Errorf("%s: offender %+v", name, gone.Offender)
				}
				if string(mem[:page-2]) != whole || len(s.up.delivered) != 0 {
					t.Errorf("%s: what came before is lost, or %d were delivered", name, len(s.up.delivered))
				}
				if gone, err := s.Guard(func() error { _ = s.next(seg(0, false, "late")); return nil }); gone != nil ||
					err != nil || mem[0] == 'l' {
					t.Errorf("%s: a segment after it: %v, %v", name, gone, err)
				}
				end() // hangs if something is locked still
			}
		}
	}
}

// Errors of f are its own, and panics that have nothing to do with placing go on.
func TestGuardOfOthers(t *testing.T) {
	s := newSink(true, 0)
	mine := errors.New("mine")
	if gone, err := s.Guard(func() error { return mine }); gone != nil || !errors.Is(err, mine) {
		t.Errorf("%v, %v", gone, err)
	}
	r := s.region(t, ddp.RegionConfig{Buf: make([]byte, 8), Access: ddp.RemoteWrite})
	mem := missing(t)
	for name, f := range map[string]func(){
		"a panic":            func() { panic("mine") },
		"a fault in f":       func() { mem[len(mem)-1] = 1 },
		"a fault in the ULP": func() { _ = s.next(segment(tagged(r.STag(), 0, true), "x")) },
	} {
		s.up.deliver = func(*ddp.Message) *protocol.Error { mem[len(mem)-1] = 1; return nil }
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it was taken for a fault of placing", name)
				}
			}()
			_, _ = s.Guard(func() error { f(); return nil })
		}()
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

// The word of an atomic that is not there.
func TestAtomicOnMissingMemory(t *testing.T) {
	table, page := ddp.NewTable(0), os.Getpagesize()
	r := register(t, table, ddp.RegionConfig{Buf: missing(t), Access: ddp.RemoteAtomic, PD: me.PD})
	wantCode(t, "Atomic", r.Atomic(me, uint64(page), func(w *uint64) { *w = 1 }), protocol.RDMAPStreamCatastrophic)
	if err := r.Atomic(me, uint64(page-8), func(w *uint64) { *w = 1 }); err != nil {
		t.Error(err)
	}
	r.Invalidate()
}
