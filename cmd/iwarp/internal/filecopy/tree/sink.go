package tree

import (
	"crypto/rand"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"time"
)

// Sink is a file that is being made, under another name than it will have. WriteAt and
// ReadAt may be called from several goroutines; Commit or Abandon ends it.
type Sink struct {
	d       *dir
	f       *os.File
	tmp     string
	name    string
	had     int64 // octets that it held when it was opened
	resumed bool
}

func hashName(name string) []byte {
	h := fnv.New128a()
	_, _ = h.Write([]byte(name))
	return h.Sum(nil)
}

// Create begins a file of e.Size octets. What a run has left that did not get to its
// end is taken over: Resumed.
func (t *Tree) Create(e Entry) (*Sink, error) {
	s, err := t.create(e)
	if err != nil {
		return nil, err
	}
	s.resumed = s.had > 0
	if err := s.f.Truncate(e.Size); err != nil {
		return nil, errors.Join(err, s.Abandon())
	}
	return s, nil
}

// create opens the file under which e is made. It may hold octets already.
func (t *Tree) create(e Entry) (*Sink, error) {
	d, name, err := t.newParent(e.Path)
	if err != nil {
		return nil, err
	}
	s := &Sink{d: d, name: name, tmp: partName(name)}
	if err := s.open(); err != nil {
		d.release()
		return nil, err
	}
	return s, nil
}

// How long to wait for somebody else who is making the same file: it may be a run that has
// just been killed, whose server is about to notice.
const (
	lockTries = 50
	lockPause = 40 * time.Millisecond // at most, between two tries
)

// open opens the file. Another process, or another connection, may be making the same
// one: it holds the lock then, and if it goes on doing so, this one takes another name.
func (s *Sink) open() error {
	for try := range lockTries + 1 {
		f, err := s.d.OpenFile(s.tmp, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if lock(f) && s.isAt(f) {
			s.f = f // and the lock goes with it
			return nil
		}
		_ = f.Close()
		switch {
		case try == lockTries-1:
			s.tmp = partPrefix + rand.Text() + partSuffix
		case try < lockTries-1:
			time.Sleep(min(time.Duration(try)*time.Millisecond, lockPause))
		}
	}
	return &fs.PathError{Op: "create", Path: s.name, Err: errors.New("somebody else is replacing it")}
}

// isAt reports whether f still is what its name says: whoever had the lock may have
// given the file its final name meanwhile.
func (s *Sink) isAt(f *os.File) bool {
	here, err := f.Stat()
	if err != nil || !here.Mode().IsRegular() {
		return false
	}
	s.had = here.Size()
	there, err := s.d.Lstat(s.tmp)
	return err == nil && os.SameFile(here, there)
}

// Resumed reports whether the file holds octets of an earlier run.
func (s *Sink) Resumed() bool { return s.resumed }

// WriteAt is that of io.WriterAt.
func (s *Sink) WriteAt(p []byte, off int64) (int, error) { return s.f.WriteAt(p, off) }

// ReadAt is that of io.ReaderAt.
func (s *Sink) ReadAt(p []byte, off int64) (int, error) { return s.f.ReadAt(p, off) }

// Zero makes octets of a resumed file zero, as a hole if the file system can.
func (s *Sink) Zero(off, n int64) error {
	if !s.resumed || n <= 0 {
		return nil // it is a hole already
	}
	if punch(s.f, off, n) == nil {
		return nil
	}
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		k, err := s.f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(k), n-int64(k)
	}
	return nil
}

// Commit gives the file its permissions, time and name.
func (s *Sink) Commit(e Entry) error {
	defer s.d.release()
	var err error
	if s.had > e.Size {
		err = s.f.Truncate(e.Size)
	}
	if err == nil {
		err = s.f.Chmod(e.Perm)
	}
	if err == nil {
		err = s.d.Chtimes(s.tmp, time.Time{}, e.MTime)
	}
	if err == nil {
		err = s.d.Rename(s.tmp, s.name)
	}
	if err != nil {
		err = errors.Join(err, s.d.Remove(s.tmp))
	}
	return errors.Join(err, s.f.Close())
}

// Abandon ends it without a file.
func (s *Sink) Abandon() error {
	defer s.d.release()
	return errors.Join(s.d.Remove(s.tmp), s.f.Close())
}

// Suspend ends it for now: the next run takes up what is there.
func (s *Sink) Suspend() error {
	defer s.d.release()
	return s.f.Close()
}
