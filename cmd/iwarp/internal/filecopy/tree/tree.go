// Package tree reads and replaces files below one directory, and reaches nothing
// outside it, whatever names and symbolic links say (os.Root).
//
// A file is replaced as a whole: its new octets go into a file beside it, which takes
// its name when it is complete. Whoever looks sees the old file or the new one. What a
// process leaves behind that dies on the way is that other file, whose name says what
// it is; the next run takes it over.
package tree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Kind is what an entry of a directory is.
type Kind uint8

// The kinds. Other is what cannot be copied: a device, a socket, a pipe.
const (
	None Kind = iota // there is nothing
	File
	Dir
	Symlink
	Other
)

// String returns the name for people.
func (k Kind) String() string {
	return [...]string{"nothing", "file", "directory", "symbolic link", "special file"}[min(k, Other)]
}

// Entry describes a file, directory or link.
type Entry struct {
	Path  string // below the tree's directory, with slashes; "." is the directory itself
	Kind  Kind
	Perm  fs.FileMode // permission bits only
	Size  int64       // octets, of a File
	MTime time.Time
	Link  string // what a Symlink holds
	Same  string // Path of an entry seen before that is the same file (a hard link)
}

// Tree is a directory and all below it. Its methods may be called from any goroutine.
type Tree struct {
	root *os.Root

	mu   sync.Mutex
	dirs map[string]*dir // those that are open
	free []*dir          // those of them that nobody uses, in the order of their last use
}

// Open opens the tree below a directory.
func Open(name string) (*Tree, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return New(root), nil
}

// New returns a tree below root, which is the tree's from now on.
func New(root *os.Root) *Tree { return &Tree{root: root, dirs: map[string]*dir{}} }

// Sub returns a tree below the same directory, with open directories of its own.
func (t *Tree) Sub() (*Tree, error) {
	root, err := t.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	return New(root), nil
}

// Close closes the tree and its directories. No call may be under way.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.dirs {
		_ = d.Root.Close()
	}
	t.dirs, t.free = nil, nil
	return t.root.Close()
}

// dir is an open directory. The kernel then looks up one name for a file in it, and not its whole path.
type dir struct {
	*os.Root
	t     *Tree
	path  string
	users int
}

// maxFree bounds the directories that stay open without a user.
const maxFree = 32

// open returns the directory at a path; release it.
func (t *Tree) open(p string) (*dir, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dirs == nil {
		return nil, fs.ErrClosed
	}
	d := t.dirs[p]
	if d == nil {
		root, err := t.root.OpenRoot(filepath.FromSlash(p))
		if err != nil {
			return nil, err
		}
		d = &dir{Root: root, t: t, path: p}
		t.dirs[p] = d
	} else if d.users == 0 {
		for i := range t.free {
			if t.free[i] == d {
				t.free = append(t.free[:i], t.free[i+1:]...)
				break
			}
		}
	}
	d.users++
	return d, nil
}

func (d *dir) release() {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.users--; d.users > 0 || t.dirs == nil {
		return
	}
	t.free = append(t.free, d)
	if len(t.free) > maxFree {
		old := t.free[0]
		t.free = t.free[1:]
		delete(t.dirs, old.path)
		_ = old.Root.Close()
	}
}

// parent returns the directory that an entry is in, and the entry's name there.
func (t *Tree) parent(p string) (*dir, string, error) { return t.parentOf(p, t.open) }

// newParent is parent for what is going to be made: directories that are not there are
// made too, in whatever order a tree's entries come.
func (t *Tree) newParent(p string) (*dir, string, error) {
	return t.parentOf(p, func(p string) (*dir, error) {
		d, err := t.open(p)
		if errors.Is(err, fs.ErrNotExist) {
			if err = t.Mkdir(p); err == nil {
				d, err = t.open(p)
			}
		}
		return d, err
	})
}

func (t *Tree) parentOf(p string, open func(string) (*dir, error)) (*dir, string, error) {
	if err := Check(p); err != nil {
		return nil, "", err
	}
	if p == "." {
		return nil, "", &fs.PathError{Op: "replace", Path: p, Err: errors.New("that is the directory itself")}
	}
	d, err := open(path.Dir(p))
	return d, path.Base(p), err
}

// Check refuses a path that is none below a tree's directory.
func Check(p string) error {
	if !fs.ValidPath(strings.ToValidUTF8(p, "_")) || strings.ContainsRune(p, 0) ||
		!filepath.IsLocal(filepath.FromSlash(p)) {
		return &fs.PathError{
			Op:   "open",
			Path: p,
			Err: errors.New(
				"no path below the directory: names with slashes between, none of them empty, \".\" or \"..\"",
			),
		}
	}
	return nil
}

// partPrefix and partSuffix are around the name of a file that is not complete.
const partPrefix, partSuffix = ".", ".iwarp-part"

// IsPart reports whether a name is that of a file that is not complete.
func IsPart(name string) bool {
	return strings.HasPrefix(name, partPrefix) && strings.HasSuffix(name, partSuffix)
}

// maxName is the most octets that a name has on the file systems in use.
const maxName = 255

// partName is the name under which a file is made that shall have a name.
func partName(name string) string {
	if p := partPrefix + name + partSuffix; len(p) <= maxName {
		return p
	}
	return fmt.Sprintf("%s%x%s", partPrefix, hashName(name), partSuffix)
}

// Lstat describes an entry; its Kind is None if there is nothing.
func (t *Tree) Lstat(p string) (Entry, error) {
	if err := Check(p); err != nil {
		return Entry{}, err
	}
	info, err := t.root.Lstat(filepath.FromSlash(p))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{Path: p}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	return t.describe(t.root, filepath.FromSlash(p), p, info)
}

// describe makes the entry of what name is in r.
func (t *Tree) describe(r *os.Root, name, p string, info fs.FileInfo) (Entry, error) {
	e := Entry{Path: p, Kind: kindOf(info.Mode()), Perm: info.Mode().Perm(), MTime: info.ModTime()}
	switch e.Kind {
	case File:
		e.Size = info.Size()
	case Symlink:
		var err error
		if e.Link, err = r.Readlink(name); err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}

func kindOf(m fs.FileMode) Kind {
	switch m.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Dir
	case fs.ModeSymlink:
		return Symlink
	}
	return Other
}

// ReadFile reads a file of at most len(buf) octets into buf, and describes it as it
// was read.
func (t *Tree) ReadFile(p string, buf []byte) (Entry, error) {
	d, name, err := t.parent(p)
	if err != nil {
		return Entry{}, err
	}
	defer d.release()
	f, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Entry{}, err
	}
	if !info.Mode().IsRegular() {
		return Entry{}, &fs.PathError{Op: "read", Path: p, Err: errors.New("no longer a file")}
	}
	if info.Size() > int64(len(buf)) {
		return Entry{}, &fs.PathError{Op: "read", Path: p, Err: ErrChanged}
	}
	n, err := io.ReadFull(f, buf[:info.Size()])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && grown(f) {
		err = &fs.PathError{Op: "read", Path: p, Err: ErrChanged}
	}
	return Entry{Path: p, Kind: File, Perm: info.Mode().Perm(), Size: int64(n), MTime: info.ModTime()}, err
}

// grown reports whether there are octets behind those that were read.
func grown(f *os.File) bool {
	n, _ := f.Read(make([]byte, 1))
	return n > 0
}

// ErrChanged is the error of a file that changed while it was read.
var ErrChanged = errors.New("it changed while it was read")

// WriteFile replaces a file by one that holds data.
func (t *Tree) WriteFile(e Entry, data []byte) error {
	s, err := t.create(e)
	if err != nil {
		return err
	}
	if _, err := s.f.Write(data); err != nil {
		return errors.Join(err, s.Abandon())
	}
	return s.Commit(e)
}

// Mkdir makes a directory, and those that it is in, where there are none. Others may
// enter it only when SetAttr says so.
func (t *Tree) Mkdir(p string) error {
	if err := Check(p); err != nil {
		return err
	}
	if p == "." {
		return nil
	}
	info, err := t.root.Lstat(filepath.FromSlash(p))
	switch {
	case err == nil && info.IsDir():
		if info.Mode().Perm()&0o700 != 0o700 { // else nothing can be put into it
			return t.root.Chmod(filepath.FromSlash(p), info.Mode().Perm()|0o700)
		}
		return nil
	case err == nil:
		if err := t.root.Remove(filepath.FromSlash(p)); err != nil {
			return err
		}
	}
	return t.root.MkdirAll(filepath.FromSlash(p), 0o700)
}

// SetAttr sets permissions and time of a file or directory. A directory has its own
// last, since what is put into it changes them.
func (t *Tree) SetAttr(e Entry) error {
	if err := Check(e.Path); err != nil {
		return err
	}
	name := filepath.FromSlash(e.Path)
	if err := t.root.Chtimes(name, time.Time{}, e.MTime); err != nil {
		return err
	}
	return t.root.Chmod(name, e.Perm)
}

// Symlink replaces an entry by a symbolic link that holds e.Link. Nothing here follows
// it out of the directory.
func (t *Tree) Symlink(e Entry) error {
	return t.replace(e.Path, func(d *dir, tmp string) error {
		if err := d.Symlink(e.Link, tmp); err != nil {
			return err
		}
		return linkTime(d.Root, tmp, e.MTime)
	})
}

// Link replaces an entry by a further name of the file e.Same.
func (t *Tree) Link(e Entry) error {
	if err := Check(e.Same); err != nil {
		return err
	}
	d, name, err := t.newParent(e.Path)
	if err != nil {
		return err
	}
	defer d.release()
	// By the tree's own directory: the two may be in different ones.
	tmp := path.Join(path.Dir(e.Path), partPrefix+rand.Text()+partSuffix)
	if err := t.root.Link(filepath.FromSlash(e.Same), filepath.FromSlash(tmp)); err != nil {
		return err
	}
	if err := d.Rename(path.Base(tmp), name); err != nil {
		return errors.Join(err, d.Remove(path.Base(tmp)))
	}
	_ = d.Remove(path.Base(tmp)) // still there if both names were the same file before
	return nil
}

// replace makes something under another name and gives it the entry's.
func (t *Tree) replace(p string, mk func(d *dir, tmp string) error) error {
	d, name, err := t.newParent(p)
	if err != nil {
		return err
	}
	defer d.release()
	tmp := partPrefix + rand.Text() + partSuffix
	if err := mk(d, tmp); err != nil {
		return err
	}
	if err := d.Rename(tmp, name); err != nil {
		return errors.Join(err, d.Remove(tmp))
	}
	return nil
}
