package main

import (
	"encoding/binary"
	"errors"
)

// stringTable is the field of a Profile that has its strings.
const stringTable = 6

var errProto = errors.New("the profile is no protocol buffer as described")

// mapStrings returns a Profile whose strings are changed by f.
func mapStrings(b []byte, f func(string) string) (out []byte, err error) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errProto
		}
		size, value, err := field(tag&7, b[n:])
		if err != nil {
			return nil, err
		}
		if tag == stringTable<<3|2 {
			s := f(string(value))
			out = binary.AppendUvarint(out, tag)
			out = binary.AppendUvarint(out, uint64(len(s)))
			out = append(out, s...)
		} else {
			out = append(out, b[:n+size]...)
		}
		b = b[n+size:]
	}
	return out, nil
}

// field measures a field's value behind its tag, and gives the content if it is one
// of octets.
func field(wireType uint64, b []byte) (size int, content []byte, err error) {
	switch wireType {
	case 0:
		_, n := binary.Uvarint(b)
		if n > 0 {
			return n, nil, nil
		}
	case 1:
		if len(b) >= 8 {
			return 8, nil, nil
		}
	case 2:
		octets, n := binary.Uvarint(b)
		if n > 0 && octets <= uint64(len(b)-n) {
			return n + int(octets), b[n:][:octets], nil
		}
	case 5:
		if len(b) >= 4 {
			return 4, nil, nil
		}
	}
	return 0, nil, errProto
}
