package filecopy

import (
	"errors"
	"io"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
)

// has reports whether a file that is being made has octets with a checksum at off.
// buf has the length of the chunk.
func has(k *tree.Sink, off int64, spans []tree.Span, buf []byte, sum wire.Sum) (bool, error) {
	if !k.Resumed() {
		return false, nil
	}
	for _, s := range spans {
		if _, err := k.ReadAt(buf[s.Off:][:s.Len], off+s.Off); err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, err
		}
	}
	return wire.SumOf(buf, spans) == sum, nil
}

// write writes the data of a chunk, and makes holes of the rest.
func write(k *tree.Sink, off, n int64, spans []tree.Span, chunk []byte) error {
	for _, s := range spans {
		if _, err := k.WriteAt(chunk[s.Off:][:s.Len], off+s.Off); err != nil {
			return err
		}
	}
	return zeroHoles(k, off, n, spans)
}

// zeroHoles makes what is not data zero.
func zeroHoles(k *tree.Sink, off, n int64, spans []tree.Span) error {
	at := int64(0)
	for _, s := range spans {
		if err := k.Zero(off+at, s.Off-at); err != nil {
			return err
		}
		at = s.Off + s.Len
	}
	return k.Zero(off+at, n-at)
}

// octets returns how many octets of data spans have.
func octets(spans []tree.Span) (n int64) {
	for _, s := range spans {
		n += s.Len
	}
	return n
}
