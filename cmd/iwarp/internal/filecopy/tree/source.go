package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/go-iwarp/iwarp/internal/fault"
)

// Source is a file that is being read. Its methods may be called from several
// goroutines.
type Source struct {
	f      *os.File
	entry  Entry
	mapped []byte // all of it, nil where it cannot be mapped
	whole  bool   // it has no holes

	mu   sync.Mutex
	data [2]int64 // a range of data that was found: to look for a hole can take as long as the range
}

// OpenSource opens a file to read from.
func (t *Tree) OpenSource(p string) (*Source, error) {
	d, name, err := t.parent(p)
	if err != nil {
		return nil, err
	}
	defer d.release()
	f, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: p, Err: errors.New("no file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &Source{
		f:     f,
		entry: Entry{Path: p, Kind: File, Perm: info.Mode().Perm(), Size: info.Size(), MTime: info.ModTime()},
	}
	s.mapped, _ = mapFile(f, s.entry.Size)
	s.whole = allocated(info) >= s.entry.Size
	return s, nil
}

// Entry describes the file as it was when it was opened.
func (s *Source) Entry() Entry { return s.entry }

// Mapped returns the whole file's octets, nil where the system does not map files. They
// are the source's until Close. Where the file has been truncated, touching them is a
// fault of the program: only package iwarp and Guarded may.
func (s *Source) Mapped() []byte { return s.mapped }

// Close ends it; nobody may use what Mapped returned any more.
func (s *Source) Close() error { return errors.Join(unmapFile(s.mapped), s.f.Close()) }

// Changed returns an error if the file is not what it was when it was opened.
func (s *Source) Changed() error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.entry.Size || !info.ModTime().Equal(s.entry.MTime) {
		return &fs.PathError{Op: "read", Path: s.entry.Path, Err: ErrChanged}
	}
	return nil
}

// ReadAt is that of io.ReaderAt, but for less than all of p it returns ErrChanged.
func (s *Source) ReadAt(p []byte, off int64) error {
	_, err := s.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		return &fs.PathError{Op: "read", Path: s.entry.Path, Err: ErrChanged}
	}
	return err
}

// Guarded calls f, which may touch mapped octets; that they are not there any more is
// ErrChanged.
func (s *Source) Guarded(f func()) (err error) {
	touching := true
	defer func(was bool) {
		fault.Unguard(was)
		if touching && fault.Of(recover()) != nil {
			err = &fs.PathError{Op: "read", Path: s.entry.Path, Err: ErrChanged}
		}
	}(fault.Guard())
	f()
	touching = false
	return nil
}

// Span is a range of octets in a chunk of a file: from Off on, Len octets.
type Span struct {
	_   struct{} `cbor:",toarray"`
	Off int64
	Len int64
}

// maxSpans is how many ranges of data a chunk is divided into at most.
const maxSpans = 64

// next is nextData, but what was found before is not looked for again.
func (s *Source) next(at int64) (from, to int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data[0] <= at && at < s.data[1] {
		return at, s.data[1], true
	}
	from, to, ok = nextData(s.f, at)
	if ok && from < to {
		s.data = [2]int64{from, to}
	}
	return from, to, ok
}

// Data returns where there is data in n octets of the file from off on, in order, and
// relative to off. The rest are holes, which read as zeros.
func (s *Source) Data(off, n int64) ([]Span, error) {
	info, err := s.f.Stat()
	if err == nil && info.Size() < off+n { // behind its end there is a hole too
		err = &fs.PathError{Op: "read", Path: s.entry.Path, Err: ErrChanged}
	}
	if err != nil {
		return nil, err
	}
	if s.whole {
		return []Span{{Len: n}}, nil
	}
	var spans []Span
	for at := off; at < off+n; {
		from, to, ok := s.next(at)
		switch {
		case !ok || len(spans) == maxSpans-1: // holes cannot be told, or there are too many
			return append(spans, Span{Off: at - off, Len: off + n - at}), nil
		case from >= off+n || to <= at:
			return spans, nil
		}
		from, to = max(from, at), min(to, off+n)
		spans = append(spans, Span{Off: from - off, Len: to - from})
		at = to
	}
	return spans, nil
}
