package mpa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

func pattern(n, from int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(from + 7*i)
	}
	return b
}

// feed hands stream to a Deframer in chunks of the given sizes (the last one
// repeats) and gives copies of the ULPDUs.
func feed(d *Deframer, stream []byte, sizes ...int) (ulpdus [][]byte, rest int, err *protocol.Error) {
	var buf []byte
	for i := 0; len(stream) > 0; i++ {
		n := min(sizes[min(i, len(sizes)-1)], len(stream))
		buf = append(buf, stream[:n]...)
		stream = stream[n:]
		for {
			u, n, need, err := d.Next(buf)
			if err != nil {
				return ulpdus, len(buf), err
			}
			if n == 0 {
				if need <= len(buf) {
					panic("Next asks for what it has")
				}
				break
			}
			ulpdus = append(ulpdus, bytes.Clone(u))
			buf = buf[n:]
		}
	}
	return ulpdus, len(buf), nil
}

func (v *frameVector) deframer() *Deframer {
	d := &Deframer{Markers: v.markers, CRC: !v.noCRC, Strict: true}
	d.SetPosition(v.pos)
	return d
}

func (v *frameVector) wantULPDUs(t *testing.T, got [][]byte) {
	t.Helper()
	if len(got) != len(v.ulpdus) {
		t.Fatalf("%d ULPDUs, want %d", len(got), len(v.ulpdus))
	}
	for i, u := range got {
		if !bytes.Equal(u, unhex(t, v.ulpdus[i])) {
			t.Errorf("ULPDU %d is %x, want %s", i, u, v.ulpdus[i])
		}
	}
}

// Shows: MPA-3-01, MPA-3-07, MPA-4.1-01, MPA-4.1-02, MPA-4.1-03, MPA-4.2-01, MPA-4.2-03, MPA-4.3-01, MPA-4.3-03
// Shows: MPA-4.3-05, MPA-4.3-07, MPA-4.3-08, MPA-4.3-10, MPA-4.3-11, MPA-4.3-13, MPA-4.4-01, MPA-4.4-10
// Shows: MPA-4.4-12, MPA-4.4-13, MPA-7.1.2-18
func TestGoldenFrames(t *testing.T) {
	for _, v := range goldenFrames {
		t.Run(v.name, func(t *testing.T) {
			wire := unhex(t, v.hex)
			f := framer{marked: v.markers, crc: !v.noCRC, pos: v.pos}
			var sent []byte
			for _, u := range v.ulpdus {
				sent = f.append(sent, unhex(t, u))
			}
			if !bytes.Equal(sent, wire) {
				t.Errorf("sent %x\nwant %x", sent, wire)
			}
			if f.pos != v.pos+uint64(len(wire)) {
				t.Errorf("the next FPDU is at %d", f.pos)
			}
			got, rest, err := feed(v.deframer(), wire, len(wire))
			if err != nil || rest != 0 {
				t.Fatalf("%v, %d octets left", err, rest)
			}
			v.wantULPDUs(t, got)
		})
	}
}

// Shows: MPA-4.1-04, MPA-4.1-06, MPA-4.2-02, MPA-4.2-05, MPA-4.4-08, MPA-7.1.1-10
func TestToleratedFrames(t *testing.T) {
	for _, v := range toleratedFrames {
		t.Run(v.name, func(t *testing.T) {
			got, rest, err := feed(v.deframer(), unhex(t, v.hex), 1)
			if err != nil || rest != 0 {
				t.Fatalf("%v, %d octets left, want it accepted", err, rest)
			}
			v.wantULPDUs(t, got)
		})
	}
}

// Shows: MPA-4.3-12, MPA-5.1-05, MPA-5.2-01, MPA-6-02, MPA-A.4-01
func TestEverySplit(t *testing.T) {
	for _, v := range goldenFrames {
		wire := unhex(t, v.hex)
		for i := 1; i <= len(wire); i++ {
			got, rest, err := feed(v.deframer(), wire, i, len(wire))
			if err != nil || rest != 0 {
				t.Fatalf("%s split at %d: %v, %d octets left", v.name, i, err, rest)
			}
			v.wantULPDUs(t, got)
		}
		for _, size := range []int{1, 2, 3, 5, 7, 511, 512, 513} {
			got, _, err := feed(v.deframer(), wire, size)
			if err != nil {
				t.Fatalf("%s in %d octets: %v", v.name, size, err)
			}
			v.wantULPDUs(t, got)
		}
	}
}

// Shows: MPA-6-01, MPA-6-03
func TestEveryTruncation(t *testing.T) {
	for _, v := range goldenFrames {
		wire := unhex(t, v.hex)
		d := v.deframer()
		_, first, _, err := v.deframer().Next(bytes.Clone(wire))
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			b := bytes.Clone(wire[:i])
			u, n, need, err := d.Next(b)
			if u != nil || n != 0 || err != nil || need <= i || need > first {
				t.Fatalf("%s, first %d of %d octets: %d octets used, need %d, %v", v.name, i, first, n, need, err)
			}
			if !bytes.Equal(b, wire[:i]) {
				t.Fatalf("%s: octets of an unfinished FPDU were changed", v.name)
			}
		}
	}
}

// Shows: MPA-4.3-01, MPA-4.4-14, MPA-4.4-15, MPA-8-02
func TestOneBitFlips(t *testing.T) {
	for _, v := range goldenFrames {
		if v.noCRC || len(v.ulpdus) > 1 {
			continue
		}
		wire := unhex(t, v.hex)
		b := make([]byte, 70000) // a longer ULPDU_Length asks for more, which is at hand
		for bit := range 8 * len(wire) {
			copy(b, wire)
			b[bit/8] ^= 1 << (bit % 8)
			d := v.deframer()
			d.Strict = false
			u, _, _, err := d.Next(b)
			if u != nil || err == nil || err.Code != protocol.MPACRC {
				t.Fatalf("%s, bit %d flipped: %v, want a CRC error", v.name, bit, err)
			}
		}
	}
}

// Shows: MPA-8-02, MPA-8-03, MPA-8-04, MPA-8-06, MPA-8-08, MPA-5.2-02
func TestRefusedFrames(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		markers   bool
		pos       uint64
		code      protocol.Code
	}{
		{
			name: "bad_crc", hex: "001741430000000000000000000000010000000068656c6c6f000000b990b10d", pos: 0,
			code: protocol.MPACRC,
		},
		{
			name:    "wrong_fpduptr",
			hex:     "002a41430000000000000000000000020000000000000018000000000000000000000000000000000000000000000000e996c154",
			markers: true, pos: 492, code: protocol.MPAMarker,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := unhex(t, tt.hex)
			v := frameVector{markers: tt.markers, pos: tt.pos}
			d := v.deframer()
			got, _, err := feed(d, append(wire, unhex(t, goldenFrames[0].hex)...), 9)
			wantCode(t, err, tt.code)
			if got != nil {
				t.Errorf("gave %x", got)
			}
			// The error stays, and valid FPDUs behind it are not given.
			u, n, _, again := d.Next(unhex(t, goldenFrames[0].hex))
			if again != err || u != nil || n != 0 {
				t.Errorf("afterwards: %x, %d, %v", u, n, again)
			}
			if tt.code == protocol.MPAMarker {
				d := v.deframer()
				d.IgnoreMarkers = true
				if got, rest, err := feed(d, wire, 100); err != nil || rest != 0 || len(got) != 1 {
					t.Errorf("IgnoreMarkers: %v", err)
				}
			}
		})
	}
}

// A wrong Marker before the FPDU and one behind the first are found too, also
// with CRCs off.
//
// Shows: MPA-8-03
func TestWrongMarkers(t *testing.T) {
	for _, crc := range []bool{true, false} {
		for _, at := range []int{0, 512, 1024} {
			f := framer{marked: true, crc: crc}
			wire := f.append(nil, pattern(1200, 0))
			wire[at+3] ^= 4
			if crc {
				sum := crc32.Checksum(wire[:len(wire)-4], crc32.MakeTable(crc32.Castagnoli))
				binary.LittleEndian.PutUint32(wire[len(wire)-4:], sum)
			}
			d := Deframer{Markers: true, CRC: crc}
			_, _, _, err := d.Next(wire)
			wantCode(t, err, protocol.MPAMarker)
		}
	}
}

// Shows: MPA-3-05, MPA-3-06
func TestULPDUSizes(t *testing.T) {
	for _, n := range []int{0, MaxULPDU + 1, 70000} {
		var se *SizeError
		s := newSender(false, true, 0, AlignOff)
		if err := s.add(nil, [][]byte{make([]byte, n)}, true); !errors.As(err, &se) || se.Len != n || se.Error() == "" {
			t.Errorf("add of %d octets: %v", n, err)
		}
		if s.batch.left != 0 || s.framer.pos != 0 {
			t.Errorf("a refused ULPDU left %d octets and moved the stream to %d", s.batch.left, s.framer.pos)
		}
	}
	// The receiver takes what 16 bits can say, unless Strict.
	for _, markers := range []bool{false, true} {
		for _, n := range []int{0, MaxULPDU, MaxULPDU + 1, 65474, 65535} {
			f := framer{marked: markers, crc: true}
			want := pattern(n, 1)
			wire := make([]byte, f.len(n))
			f.encode(wire, nil, [][]byte{want}, n, nil)
			d := Deframer{Markers: markers, CRC: true}
			if u, used, _, err := d.Next(bytes.Clone(wire)); err != nil || u == nil || used != len(wire) ||
				!bytes.Equal(u, want) {
				t.Errorf("%d octets, markers %t: %v", n, markers, err)
			}
			d = Deframer{Markers: markers, CRC: true, Strict: true}
			_, _, _, err := d.Next(wire)
			if n > MaxULPDU {
				wantCode(t, err, protocol.MPAMarker)
			} else if err != nil {
				t.Errorf("Strict, %d octets: %v", n, err)
			}
		}
	}
}

// Shows: MPA-3-02, MPA-3-04, MPA-4.5-01, MPA-4.5-02, MPA-4.5-06
func TestMULPDU(t *testing.T) {
	for _, r := range mulpduTable {
		if m, p := MULPDU(r[0], true), MULPDU(r[0], false); m != r[1] || p != r[2] {
			t.Errorf("EMSS %d: %d with Markers and %d without, want %d and %d", r[0], m, p, r[1], r[2])
		}
	}
	for emss := -5; emss < 70000; emss++ {
		for _, markers := range []bool{false, true} {
			n := MULPDU(emss, markers)
			if n < MinMULPDU || n > MaxULPDU {
				t.Fatalf("EMSS %d: MULPDU %d", emss, n)
			}
			if n == MinMULPDU {
				continue
			}
			// The FPDU fits the segment wherever the Markers fall.
			for _, pos := range []uint64{0, 4, 508, 256} {
				if l := layoutOf(pos, n, markers); l.total > emss {
					t.Fatalf("EMSS %d, offset %d: an FPDU of MULPDU %d has %d octets", emss, pos, n, l.total)
				}
			}
		}
	}
}

// Shows: MPA-4.4-11
func TestCRC(t *testing.T) {
	if crc := updateCRC(0, []byte("123456789")); crc != 0xe3069283 {
		t.Errorf("CRC32c of 123456789 is %08x", crc)
	}
	w := fpduWriter{to: make([]byte, 36), at: 32, next: 512, sum: updateCRC(0, make([]byte, 32))}
	if w.end(2); !bytes.Equal(w.to[32:], []byte{0xaa, 0x36, 0x91, 0x8a}) {
		t.Errorf("32 zero octets give %x", w.to[32:])
	}
	if crc := updateCRC(updateCRC(0, []byte("1234")), []byte("56789")); crc != 0xe3069283 {
		t.Errorf("in two parts: %08x", crc)
	}
}

// refFrame makes a marked FPDU octet by octet, as the RFC tells it.
func refFrame(pos uint64, ulpdu []byte, markers bool) []byte {
	content := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	content = append(content, ulpdu...)
	for len(content)%4 != 0 {
		content = append(content, 0)
	}
	var b []byte
	header := -1
	put := func(x byte) {
		if markers && (pos+uint64(len(b)))%512 == 0 {
			ptr := 0
			if header >= 0 {
				ptr = len(b) - header
			}
			b = append(b, 0, 0, byte(ptr>>8), byte(ptr))
		}
		if header < 0 {
			header = len(b)
		}
		b = append(b, x)
	}
	for _, x := range content {
		put(x)
	}
	// The CRC covers a Marker right before it.
	put(0)
	b = b[:len(b)-1]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// Shows: MPA-4.1-05, MPA-4.2-04, MPA-4.3-04, MPA-4.3-09
func TestMarkersAtEveryPhase(t *testing.T) {
	for phase := uint64(0); phase < 1024; phase += 4 {
		for _, n := range []int{1, 14, 18, 490, 494, 498, 502, 503, 506, 507, 510, 1010, 1014, 1018, 1442} {
			u := pattern(n, int(phase))
			f := framer{marked: true, crc: true, pos: phase}
			got := f.append(nil, u[:n/3], u[n/3:])
			if want := refFrame(phase, u, true); !bytes.Equal(got, want) {
				t.Fatalf("offset %d, %d octets: %x\nwant %x", phase, n, got, want)
			}
			if len(got)%4 != 0 {
				t.Fatalf("FPDU of %d octets", len(got))
			}
			d := Deframer{Markers: true, CRC: true}
			d.SetPosition(phase)
			back, used, _, perr := d.Next(bytes.Clone(got))
			if perr != nil || used != len(got) || !bytes.Equal(back, u) {
				t.Fatalf("offset %d, %d octets: %v", phase, n, perr)
			}
			if f.pos != d.pos || f.markers != d.markers {
				t.Fatalf("the ends are at %d and %d with %d and %d Markers", f.pos, d.pos, f.markers, d.markers)
			}
		}
	}
	// RFC 5044 section 4.3: a stream that starts at 11 has Markers at 11, 523, 1035.
	f := framer{marked: true}
	stream := make([]byte, 11)
	stream = f.append(stream, make([]byte, 1200))
	for i, at := range []int{11, 523, 1035} {
		if ptr := binary.BigEndian.Uint32(stream[at:]); int(ptr) != max(at-11-4, 0) {
			t.Errorf("Marker %d is %08x", i, ptr)
		}
	}
}

// Shows: MPA-4.3-06
func TestPositionWrap(t *testing.T) {
	for _, start := range []uint64{1<<32 - 512, 1<<32 - 200, 1<<32 - 4, 1 << 32, 1<<63 - 1000, 1<<64 - 1000} {
		start &^= 3
		f := framer{marked: true, crc: true, pos: start}
		d := Deframer{Markers: true, CRC: true}
		d.SetPosition(start)
		var stream, want []byte
		for i := range 10 {
			u := pattern(300+i, i)
			want = append(want, refFrame(start+uint64(len(want)), u, true)...)
			stream = f.append(stream, u)
		}
		if !bytes.Equal(stream, want) {
			t.Fatalf("start %d: Markers lie elsewhere", start)
		}
		got, rest, err := feed(&d, stream, 33)
		if err != nil || rest != 0 || len(got) != 10 {
			t.Fatalf("start %d: %d ULPDUs, %v", start, len(got), err)
		}
	}
}
