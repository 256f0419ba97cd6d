package iwarptest

import (
	"encoding/binary"
	"fmt"
)

// MarkerInterval is the distance of Markers in the stream in octets
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.3).
const MarkerInterval = 512

// crcTable has the CRC of each octet, made bit by bit from the polynomial.
var crcTable = func() (t [256]uint32) {
	for i := range t {
		crc := uint32(i)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78&-(crc&1)
		}
		t[i] = crc
	}
	return t
}()

// CRC32C returns the CRC of RFC 5044 section 4.4 as a number; the wire has its
// least significant octet first. It is this package's own.
func CRC32C(b []byte) uint32 {
	crc := ^uint32(0)
	for _, octet := range b {
		crc = crc>>8 ^ crcTable[byte(crc)^octet]
	}
	return ^crc
}

// FPDU frames a ULPDU without Markers and with its CRC
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|          ULPDU_Length         |             ULPDU             |
//	+-------------------------------+                               |
//	|                               +-------------------------------+
//	|                               |          PAD (0 to 3)         |
//	+-------------------------------+-------------------------------+
//	|                              CRC                              |
//	+---------------------------------------------------------------+
func FPDU(ulpdu []byte) []byte { return new(Framer).Frame(ulpdu) }

// FixCRC computes the CRC of a frame made by [FPDU] or [Framer.Frame] anew, in
// place, after its octets were changed. It returns the frame; one shorter than a
// CRC is returned as it is.
func FixCRC(fpdu []byte) []byte {
	body := len(fpdu) - 4
	if body < 0 {
		return fpdu
	}
	binary.LittleEndian.PutUint32(fpdu[body:], CRC32C(fpdu[:body]))
	return fpdu
}

// Framer makes, or takes apart, the FPDUs of one direction of a stream. Its zero
// value is a stream from its start without Markers and with CRC.
type Framer struct {
	// Markers puts a Marker before every 512th octet of the stream.
	Markers bool
	// NoCRC is for a connection on which neither end asked for CRC: the field is
	// sent as zero, and not looked at.
	NoCRC bool
	// Pos is the number of octets of Full Operation that went before, Markers
	// included. Frame and Unframe move it on. It is a multiple of 4, as every stream
	// of FPDUs has it; from another one no Marker is ever due.
	Pos uint64
}

// Frame returns the FPDU of a ULPDU of at most 65535 octets, with the Marker that
// is due before it, if one is. ULPDU_Length has 16 bits: for a ULPDU that is longer
// it has the low ones, and the FPDU is one that no receiver can take apart.
func (f *Framer) Frame(ulpdu []byte) []byte {
	clean := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	clean = append(clean, ulpdu...)
	for len(clean)%4 != 0 {
		clean = append(clean, 0)
	}
	var out []byte
	start, started := f.Pos, false
	mark := func() {
		at := f.Pos + uint64(len(out))
		if !f.Markers || at%MarkerInterval != 0 {
			return
		}
		if !started {
			start = at + 4
			out = append(out, 0, 0, 0, 0)
			return
		}
		out = binary.BigEndian.AppendUint32(out, uint32(at-start))
	}
	for i := 0; i < len(clean); i += 4 { // a Marker stands at a multiple of four octets
		mark()
		started = true
		out = append(out, clean[i:i+4]...)
	}
	mark()
	out = append(out, 0, 0, 0, 0)
	if !f.NoCRC {
		FixCRC(out)
	}
	f.Pos += uint64(len(out))
	return out
}

// Unframe takes the FPDU at the start of b apart and gives its ULPDU and the
// octets that it took, 0 if b does not have all of it yet. It is strict: PAD,
// the reserved half of Markers and the low bits of FPDUPTR must be zero, as they
// must be sent so. The ULPDU does not share b's memory.
func (f *Framer) Unframe(b []byte) (ulpdu []byte, n int, err error) {
	var clean []byte
	start, need := f.Pos, 4
	for len(clean) < need || f.markerDue(n) {
		if len(b) < n+4 {
			return nil, 0, nil
		}
		word := b[n : n+4]
		if f.markerDue(n) {
			at := f.Pos + uint64(n)
			want := uint32(at - start)
			if n == 0 {
				want, start = 0, at+4
			}
			if got := binary.BigEndian.Uint32(word); got != want {
				return nil, 0, fmt.Errorf("the Marker at octet %d of the stream is %08x, want %08x", at, got, want)
			}
			n += 4
			if len(b) < n+4 {
				return nil, 0, nil
			}
			word = b[n : n+4]
			if len(clean) >= need {
				break // it was between PAD and CRC
			}
		}
		clean = append(clean, word...)
		n += 4
		if len(clean) == 4 {
			need = (2 + int(binary.BigEndian.Uint16(clean)) + 3) &^ 3
		}
	}
	if len(b) < n+4 {
		return nil, 0, nil
	}
	if got, want := binary.LittleEndian.Uint32(b[n:]), CRC32C(b[:n]); !f.NoCRC && got != want {
		return nil, 0,
			fmt.Errorf("the CRC of the FPDU at octet %d of the stream is %x, want %08x, least significant octet first",
				f.Pos, b[n:n+4], want)
	}
	end := 2 + int(binary.BigEndian.Uint16(clean))
	for i, octet := range clean[end:] {
		if octet != 0 {
			return nil, 0, fmt.Errorf("octet %d of the PAD is %#02x, must be sent as zero", i, octet)
		}
	}
	n += 4
	f.Pos += uint64(n)
	return clean[2:end:end], n, nil
}

func (f *Framer) markerDue(n int) bool {
	return f.Markers && (f.Pos+uint64(n))%MarkerInterval == 0
}
