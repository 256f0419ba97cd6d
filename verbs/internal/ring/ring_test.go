package ring_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

func newMemory(t *testing.T) (*ring.Memory, int) {
	t.Helper()
	m, fd, err := ring.NewMemory("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); _ = unix.Close(fd) })
	return m, fd
}

// A ring has room for what was asked, and lies in the memfd as the program maps it.
func TestRing(t *testing.T) {
	m, fd := newMemory(t)
	for _, tt := range []struct{ n, size, slots, octets int }{
		{n: 1, size: 64, slots: 2, octets: 64},
		{n: 2, size: 64, slots: 4, octets: 64},
		{n: 3, size: 65, slots: 4, octets: 128},
		{n: 1000, size: 208 + 512, slots: 1024, octets: 1024},
	} {
		r, err := m.New(tt.n, tt.size)
		if err != nil {
			t.Fatal(err)
		}
		if r.Slots() != tt.slots || len(r.At(0)) != tt.octets {
			t.Errorf(
				"%d of %d: %d slots of %d octets, want %d of %d",
				tt.n,
				tt.size,
				r.Slots(),
				len(r.At(0)),
				tt.slots,
				tt.octets,
			)
		}
		i := r.Info()
		seen, err := unix.Mmap(fd, int64(i.Offset), int(i.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		if got := uabi.Order.Uint32(seen[4:]); got != uint32(tt.slots-1) {
			t.Errorf("index mask %d", got)
		}
		r.At(1)[0] = 0x5a
		r.SetProducer(1)
		if seen[384+tt.octets] != 0x5a || uabi.Order.Uint32(seen[128:]) != 1 || r.Len() != 1 {
			t.Errorf(
				"the program sees 0x%02x, producer %d; %d elements",
				seen[384+tt.octets],
				uabi.Order.Uint32(seen[128:]),
				r.Len(),
			)
		}
		// What the program writes is masked.
		uabi.Order.PutUint32(seen[128:], 0xffffffff)
		uabi.Order.PutUint32(seen[256:], 0xfffffffe)
		if r.Producer() >= uint32(tt.slots) || r.Consumer() >= uint32(tt.slots) || r.Len() >= tt.slots {
			t.Errorf("indexes beyond the ring: %d, %d, %d elements", r.Producer(), r.Consumer(), r.Len())
		}
		_ = unix.Munmap(seen)
		r.Free()
		r.Free()
		if !r.Freed() {
			t.Error("not freed")
		}
	}
}

// Copy keeps the elements in order, around the end of the ring too.
func TestCopy(t *testing.T) {
	m, _ := newMemory(t)
	from, err := m.New(3, 64)
	if err != nil {
		t.Fatal(err)
	}
	to, err := m.New(7, 64)
	if err != nil {
		t.Fatal(err)
	}
	from.SetConsumer(2)
	for k, i := range []uint32{2, 3, 0} {
		from.At(i)[0] = byte(k + 1)
	}
	from.SetProducer(1)
	from.Copy(to)
	if to.Len() != 3 {
		t.Fatalf("%d elements, want 3", to.Len())
	}
	for k := range uint32(3) {
		if to.At(k)[0] != byte(k+1) {
			t.Errorf("element %d is %d", k, to.At(k)[0])
		}
	}
}

// An element has no more octets than its slot, whatever it says.
func TestElementBounds(t *testing.T) {
	b := make([]byte, 256)
	uabi.Order.PutUint32(b[184:], 48)
	uabi.Order.PutUint32(b[196:], 3)
	w := ring.Send(b)
	if in, ok := w.Inline(); !ok || len(in) != 48 {
		t.Errorf("48 octets inline: %d, %v", len(in), ok)
	}
	if l, ok := w.SGEs(); !ok || l.Len() != 3 {
		t.Errorf("3 SGEs: %d, %v", l.Len(), ok)
	}
	uabi.Order.PutUint32(b[184:], 49)
	uabi.Order.PutUint32(b[196:], 4)
	if _, ok := w.Inline(); ok {
		t.Error("49 octets inline in a room of 48")
	}
	if _, ok := w.SGEs(); ok {
		t.Error("4 SGEs in a room for 3")
	}
	uabi.Order.PutUint32(b[196:], 0xffffffff)
	if _, ok := w.SGEs(); ok {
		t.Error("2^32-1 SGEs")
	}
	r := make(ring.Recv, 40+16)
	uabi.Order.PutUint32(r[28:], 2)
	if _, ok := r.SGEs(); ok {
		t.Error("2 SGEs of a receive in a room for 1")
	}
}

func TestCompletion(t *testing.T) {
	c := ring.Completion{
		ID:        1 << 40,
		Status:    5,
		Opcode:    128,
		Vendor:    3,
		Length:    77,
		Extra:     [4]byte{1, 2, 3, 4},
		QPN:       9,
		SourceQPN: 8,
		Flags:     2,
	}
	b := bytes.Repeat([]byte{0xff}, ring.CompletionLen)
	c.Put(b)
	if got := ring.ParseCompletion(b); got != c {
		t.Errorf("%+v, want %+v", got, c)
	}
	if !bytes.Equal(b[40:48], []byte{0, 0, 0, 0, 0, 0, 1, 0}) {
		t.Errorf("the rest: % x", b[40:48])
	}
}
