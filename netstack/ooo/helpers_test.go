package ooo_test

import "github.com/go-iwarp/iwarp/iwarptest"

// framer makes FPDUs, by the hand of a package that knows nothing of the library's.
type framer struct {
	markers bool
	f       iwarptest.Framer
	pos     uint64
}

func (f *framer) append(b []byte, ulpdu ...[]byte) []byte {
	f.f.Markers = f.markers
	var all []byte
	for _, p := range ulpdu {
		all = append(all, p...)
	}
	fpdu := f.f.Frame(all)
	f.pos += uint64(len(fpdu))
	return append(b, fpdu...)
}
