package tree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
)

// readDir is how many names are read from a directory at a time.
const readDir = 512

// Walk yields the entry at from and, if recursive, all below it: a directory before
// what is in it. An error concerns the entry yielded with it, and the walk goes on.
// What skip accepts is left out, with all below it; so are incomplete files.
func (t *Tree) Walk(ctx context.Context, from string, recursive bool, skip func(Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := &walk{t: t, ctx: ctx, skip: skip, yield: yield, seen: map[fileID]string{}}
		e, err := t.Lstat(from)
		if err == nil && e.Kind == None {
			err = &fs.PathError{Op: "open", Path: from, Err: fs.ErrNotExist}
		}
		if err != nil {
			yield(Entry{Path: from}, err)
			return
		}
		if !yield(e, nil) || e.Kind != Dir || !recursive {
			return
		}
		w.below(from)
	}
}

// walk is a walk under way.
type walk struct {
	t     *Tree
	ctx   context.Context
	skip  func(Entry) bool
	yield func(Entry, error) bool
	seen  map[fileID]string // of files with several names: the first
}

// below walks what is in a directory, and reports whether to go on.
func (w *walk) below(p string) bool {
	d, err := w.t.open(p)
	if err != nil {
		return w.yield(Entry{Path: p}, err)
	}
	defer d.release()
	f, err := d.Open(".")
	if err != nil {
		return w.yield(Entry{Path: p}, err)
	}
	defer f.Close()
	for w.ctx.Err() == nil {
		names, err := f.Readdirnames(readDir)
		for _, name := range names {
			if !IsPart(name) && !w.entry(d, name) {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return w.yield(Entry{Path: p}, err)
		}
	}
	return false
}

func (w *walk) entry(d *dir, name string) bool {
	p := path.Join(d.path, filepath.ToSlash(name))
	info, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true // it went while the directory was read
	}
	var e Entry
	if err == nil {
		e, err = w.t.describe(d.Root, name, p, info)
	}
	if err != nil {
		return w.yield(Entry{Path: p}, err)
	}
	if w.skip != nil && w.skip(e) {
		return true
	}
	w.sameAs(&e, info)
	if !w.yield(e, nil) {
		return false
	}
	return e.Kind != Dir || w.below(p)
}

// sameAs finds out whether a file has been seen under another name.
func (w *walk) sameAs(e *Entry, info fs.FileInfo) {
	id, several := identify(info)
	if e.Kind != File || !several {
		return
	}
	if first, ok := w.seen[id]; ok {
		e.Same = first
		return
	}
	w.seen[id] = e.Path
}

// IsDir reports whether a path of the operating system is a directory.
func IsDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
