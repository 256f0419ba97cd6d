package capture

import "io"

// ReaderOptions are those of a [Reader]. Nil, and zero in a field, mean the
// documented default.
type ReaderOptions struct {
	// Decompress undoes a compression that the standard library does not know; f
	// is [FormatZstd]. Default: an error.
	Decompress func(f Format, r io.Reader) (io.Reader, error)
}

// Reader reads the packets of a capture: pcap with times in micro- or nanoseconds
// or pcapng, in either octet order, plain or compressed with gzip. Its memory is
// bounded by the largest packet or block, 64 MiB at most. It is not for several
// goroutines at once.
type Reader struct {
	src  *source
	file packets
}

// packets reads the packets of a file.
type packets interface {
	// next returns io.EOF at a clean end, *FileError otherwise.
	next(p *Packet) error
	info(i *FileInfo)
}

// NewReader starts to read a capture. It reads the file's head, and blocks if r
// does. The error is a *[FileError].
//
// r may be a file that still grows: Next blocks as long as r's Read does. Reads are
// large; r needs no buffer of its own.
func NewReader(r io.Reader, o *ReaderOptions) (*Reader, error) {
	if o == nil {
		o = &ReaderOptions{}
	}
	src, format, err := newSource(r, o.Decompress)
	if err != nil {
		return nil, err
	}
	if format == FormatPcapng {
		return &Reader{src, newPcapng(src)}, nil
	}
	file, err := newPcap(src)
	if err != nil {
		return nil, err
	}
	return &Reader{src, file}, nil
}

// Next reads the next packet into p. p.Data is the Reader's: it is valid until the
// next call. At the end of the capture Next returns [io.EOF], and where the capture
// is cut or corrupt a *[FileError]; nothing can be read after either.
func (r *Reader) Next(p *Packet) error { return r.file.next(p) }

// Info describes the file as far as it was read.
func (r *Reader) Info() FileInfo {
	i := FileInfo{Compressed: r.src.compressed}
	r.file.info(&i)
	return i
}
