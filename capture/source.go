package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Format is the kind of a file.
type Format uint8

// The formats that [Sniff] knows.
const (
	FormatUnknown Format = iota
	FormatPcap
	FormatPcapng
	FormatGzip
	FormatZstd
)

// String names the format.
func (f Format) String() string {
	switch f {
	case FormatPcap:
		return "pcap"
	case FormatPcapng:
		return "pcapng"
	case FormatGzip:
		return "gzip"
	case FormatZstd:
		return "zstd"
	}
	return "unknown"
}

// MarshalText returns the name.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Sniff tells the format by the first four octets of a file.
func Sniff(head []byte) Format {
	if len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b {
		return FormatGzip
	}
	if len(head) < 4 {
		return FormatUnknown
	}
	switch v := binary.BigEndian.Uint32(head); v {
	case blockSection:
		return FormatPcapng
	case 0x28b52ffd:
		return FormatZstd
	default:
		if _, _, ok := pcapMagic(v); ok {
			return FormatPcap
		}
	}
	return FormatUnknown
}

// FileError says that a file could not be read, or not to its end. All that
// stands before Offset has been read.
type FileError struct {
	// Offset is that of the first octet that was of no use, in the file or, if it
	// was compressed, in what it expands to.
	Offset     int64
	Compressed bool
	// Err is what is wrong. It wraps [io.ErrUnexpectedEOF] if the file ends too
	// early.
	Err error
}

// Error returns reason and offset.
func (e *FileError) Error() string {
	where := "offset"
	if e.Compressed {
		where = "offset (uncompressed)"
	}
	return fmt.Sprintf("capture: at %s %d: %v", where, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// ErrFormat is in the [FileError] of a file that is no capture.
var ErrFormat = errors.New("neither pcap nor pcapng")

// source reads octets and counts them.
type source struct {
	r          *bufio.Reader
	off        int64 // of the next octet
	compressed bool
	take       int // of what was peeked, to be discarded by the next call
	big        []byte
}

const (
	sourceBuffer = 256 << 10
	// maxBlock is the largest packet or block that is believed.
	maxBlock = 64 << 20
)

// unpack undoes compression, at most twice.
func newSource(r io.Reader, decompress func(Format, io.Reader) (io.Reader, error)) (*source, Format, error) {
	s := &source{r: bufio.NewReaderSize(r, sourceBuffer)}
	for range 3 {
		head, err := s.r.Peek(4)
		f := Sniff(head)
		switch {
		case f == FormatPcap || f == FormatPcapng:
			return s, f, nil
		case f == FormatGzip:
			z, err := gzip.NewReader(s.r)
			if err != nil {
				return nil, f, s.fail(noEOF(err))
			}
			s = &source{r: bufio.NewReaderSize(z, sourceBuffer), compressed: true}
		case f == FormatZstd && decompress != nil:
			z, err := decompress(f, s.r)
			if err != nil {
				return nil, f, s.fail(noEOF(err))
			}
			s = &source{r: bufio.NewReaderSize(z, sourceBuffer), compressed: true}
		case f == FormatZstd:
			return nil, f, s.fail(fmt.Errorf("zstd, and no ReaderOptions.Decompress: %w", ErrFormat))
		case err != nil && !errors.Is(err, io.EOF):
			return nil, f, s.fail(err)
		case len(head) < 4:
			return nil, f, s.fail(fmt.Errorf("%w: %w", ErrFormat, io.ErrUnexpectedEOF))
		default:
			return nil, f, s.fail(fmt.Errorf("it starts with % x: %w", head, ErrFormat))
		}
	}
	return nil, FormatUnknown, s.fail(fmt.Errorf("compressed more than twice: %w", ErrFormat))
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *source) fail(err error) *FileError {
	return &FileError{Offset: s.off, Compressed: s.compressed, Err: err}
}

// next returns the next n octets, valid until the following call. io.EOF means that
// there is not one more octet.
func (s *source) next(n int) ([]byte, error) {
	if s.take > 0 {
		_, _ = s.r.Discard(s.take) // it was peeked
		s.off += int64(s.take)
		s.take = 0
	}
	if n <= sourceBuffer {
		b, err := s.r.Peek(n)
		if err != nil {
			if len(b) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		s.take = n
		return b, nil
	}
	s.big = s.big[:0]
	for len(s.big) < n { // what the file claims is allocated only as it arrives
		m := min(n-len(s.big), sourceBuffer)
		at := len(s.big)
		s.big = append(s.big, make([]byte, m)...)
		k, err := io.ReadFull(s.r, s.big[at:])
		if err != nil {
			if at+k > 0 {
				err = noEOF(err)
			}
			s.big = s.big[:at+k]
			return nil, err
		}
	}
	s.off += int64(n) // an error in it is told at its end: it is whole anyway
	return s.big, nil
}

// FileInfo describes a file.
type FileInfo struct {
	Format     Format `json:"format"`
	Compressed bool   `json:"compressed"`
	BigEndian  bool   `json:"big_endian"`
	// Interfaces are those met so far; a pcap file has one.
	Interfaces []Interface `json:"interfaces"`
}

// Interface is where frames were captured.
type Interface struct {
	Name    string   `json:"name,omitempty"`
	Link    LinkType `json:"link"`
	SnapLen uint32   `json:"snap_len"` // 0: none
	// Resolution of the times.
	Resolution time.Duration `json:"resolution_ns"`
}
