package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/capture"

	"github.com/klauspost/compress/zstd"
)

// stdinName is the name of standard input on the command line.
const stdinName = "-"

// maxZstdWindow bounds what a zstd frame can make us allocate.
const maxZstdWindow = 128 << 20

// open opens the capture. before is called before each Read, which may block.
func (c *Command) open(ctx context.Context, before func()) (io.Reader, func(), error) {
	if c.File == stdinName {
		return &stdinReader{ctx: ctx, before: before, r: os.Stdin}, func() {}, nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	if info.IsDir() {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: a folder: the name of a capture is expected", c.File)
	}
	return &fileReader{ctx: ctx, before: before, f: f, follow: c.Follow}, func() { _ = f.Close() }, nil
}

// unzstd is for analysis.ReaderOptions.Decompress.
func unzstd(f capture.Format, r io.Reader) (io.Reader, error) {
	if f != capture.FormatZstd {
		return nil, fmt.Errorf("%v: not a compression that is known here", f)
	}
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
}

// errInterrupted ends the reading of a file that is not followed.
var errInterrupted = errors.New("interrupted")

// fileReader reads a file. With follow it waits at the end for more, until ctx
// ends: that is the end of the file then.
type fileReader struct {
	ctx    context.Context
	before func()
	f      *os.File
	follow bool
	off    int64
}

// pollEvery is how often a followed file is looked at.
const pollEvery = 100 * time.Millisecond

// Read implements io.Reader.
func (r *fileReader) Read(b []byte) (int, error) {
	r.before()
	for {
		if r.ctx.Err() != nil && !r.follow {
			return 0, errInterrupted
		}
		n, err := r.f.Read(b)
		r.off += int64(n)
		if n > 0 || !errors.Is(err, io.EOF) || !r.follow {
			return n, err
		}
		if info, err := r.f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() < r.off {
			return 0, fmt.Errorf("the file has shrunk from %d to %d octets while it was followed", r.off, info.Size())
		}
		select {
		case <-r.ctx.Done():
			return 0, io.EOF
		case <-time.After(pollEvery):
		}
	}
}

// stdinReader reads standard input. A signal that ends ctx mostly ends the writer
// of the pipe too, so what still comes is read, but not for long.
type stdinReader struct {
	ctx    context.Context
	before func()
	r      io.Reader
	reads  chan chunk // nil before the first Read
	rest   []byte
}

type chunk struct {
	data []byte
	err  error
}

const (
	stdinChunk = 256 << 10
	stdinGrace = 500 * time.Millisecond
)

// Read implements io.Reader.
func (r *stdinReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		r.before()
		c := r.next()
		if len(c.data) == 0 && c.err != nil {
			return 0, c.err
		}
		r.rest = c.data
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next waits for a chunk.
func (r *stdinReader) next() chunk {
	if r.reads == nil {
		r.reads = make(chan chunk)
		go r.readAll()
	}
	select {
	case c := <-r.reads:
		return c
	case <-r.ctx.Done():
	}
	select {
	case c := <-r.reads:
		return c
	case <-time.After(stdinGrace):
		return chunk{err: io.EOF}
	}
}

// readAll reads in a goroutine that ends with the process: a Read of a terminal or
// pipe cannot be interrupted. The two buffers take turns: while one is in use the
// other is filled.
func (r *stdinReader) readAll() {
	buffers := [2][]byte{make([]byte, stdinChunk), make([]byte, stdinChunk)}
	for i := 0; ; i = 1 - i {
		n, err := r.r.Read(buffers[i])
		if n > 0 {
			r.reads <- chunk{data: buffers[i][:n]}
		}
		if err != nil {
			for {
				r.reads <- chunk{err: err}
			}
		}
	}
}
