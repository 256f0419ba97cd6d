package rdmap

import (
	"encoding"
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

var (
	_ encoding.BinaryAppender    = RemoteBuffer{}
	_ encoding.BinaryMarshaler   = RemoteBuffer{}
	_ encoding.BinaryUnmarshaler = (*RemoteBuffer)(nil)
)

func TestRemoteBufferEncoding(t *testing.T) {
	for _, tt := range []struct {
		name, wire string
		buf        RemoteBuffer
	}{
		{name: "zero", wire: "0000000000000000000000000000000000000000", buf: RemoteBuffer{}},
		{
			name: "each octet", wire: "0102030405060708090a0b0c0d0e0f1011121314",
			buf: RemoteBuffer{STag: 0x01020304, TO: 0x05060708090a0b0c, Length: 0x0d0e0f1011121314},
		},
		{
			name: "no length at the end", wire: "ffffffffffffffffffffffff0000000000000000",
			buf: RemoteBuffer{STag: 0xffffffff, TO: math.MaxUint64},
		},
		{
			name: "ends below 2^64", wire: "00000001fffffffffffffff0000000000000000f",
			buf: RemoteBuffer{STag: 1, TO: math.MaxUint64 - 15, Length: 15},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.buf.AppendBinary([]byte{0xee})
			if want := "ee" + tt.wire; err != nil || hex.EncodeToString(got) != want {
				t.Errorf("AppendBinary: %x, %v, want %s", got, err, want)
			}
			wire, err := tt.buf.MarshalBinary()
			if err != nil || hex.EncodeToString(wire) != tt.wire {
				t.Errorf("MarshalBinary: %x, %v, want %s", wire, err, tt.wire)
			}
			var back RemoteBuffer
			if err := back.UnmarshalBinary(wire); err != nil || back != tt.buf {
				t.Errorf("UnmarshalBinary: %+v, %v, want %+v", back, err, tt.buf)
			}
			for n := range 2 * len(wire) {
				if n == len(wire) {
					continue
				}
				b := append(append([]byte{}, wire...), wire...)[:n]
				kept := RemoteBuffer{STag: 7, TO: 8, Length: 9}
				if err := kept.UnmarshalBinary(b); err == nil || kept != (RemoteBuffer{STag: 7, TO: 8, Length: 9}) {
					t.Errorf("of %d octets: %v, and the buffer is %+v", n, err, kept)
				}
			}
		})
	}
}

func TestRemoteBufferThatWraps(t *testing.T) {
	for _, b := range []RemoteBuffer{{TO: 1, Length: math.MaxUint64}, {TO: math.MaxUint64, Length: 1}} {
		wire, _ := b.MarshalBinary()
		var back RemoteBuffer
		if err := back.UnmarshalBinary(wire); err == nil {
			t.Errorf("%+v is taken: it wraps 2^64", b)
		}
	}
}

func TestRemoteBufferSlice(t *testing.T) {
	b := RemoteBuffer{STag: 5, TO: 1000, Length: 100}
	open := RemoteBuffer{STag: 5, TO: math.MaxUint64 - 10} // length unknown
	for _, tt := range []struct {
		name   string
		of     RemoteBuffer
		off, n uint64
		want   RemoteBuffer // zero: no work request accepts the part
	}{
		{name: "all", of: b, off: 0, n: 100, want: b},
		{name: "a part", of: b, off: 10, n: 20, want: RemoteBuffer{STag: 5, TO: 1010, Length: 20}},
		{name: "nothing at the end", of: b, off: 100, n: 0, want: RemoteBuffer{STag: 5, TO: 1100}},
		{name: "one octet too many", of: b, off: 0, n: 101, want: RemoteBuffer{}},
		{name: "one octet too far", of: b, off: 1, n: 100, want: RemoteBuffer{}},
		{name: "behind the end", of: b, off: 101, n: 0, want: RemoteBuffer{}},
		{name: "a sum that wraps", of: b, off: 50, n: math.MaxUint64, want: RemoteBuffer{}},
		{
			name: "of an unknown length", of: open, off: 4, n: 6,
			want: RemoteBuffer{STag: 5, TO: math.MaxUint64 - 6, Length: 6},
		},
		{name: "of an unknown length, beyond 2^64", of: open, off: 4, n: 7, want: RemoteBuffer{}},
		{name: "of an unknown length, from beyond 2^64", of: open, off: 11, n: 0, want: RemoteBuffer{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.of.Slice(tt.off, tt.n)
			if tt.want == (RemoteBuffer{}) {
				for _, again := range []RemoteBuffer{got, got.Slice(0, 0), got.Slice(0, 1)} {
					if err := again.fits(0); !errors.Is(err, ErrInvalidRequest) {
						t.Errorf("%+v takes a request: %v", again, err)
					}
				}
				return
			}
			if got != tt.want {
				t.Errorf("Slice: %+v, want %+v", got, tt.want)
			}
			if err := got.fits(tt.n); err != nil {
				t.Errorf("%d octets do not fit: %v", tt.n, err)
			}
			if err := got.fits(tt.n + 1); got.Length != 0 && !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%d octets: %v, want ErrInvalidRequest", tt.n+1, err)
			}
		})
	}
}
