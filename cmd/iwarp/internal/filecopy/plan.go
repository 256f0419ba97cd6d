package filecopy

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
)

// direction is upload or download.
type direction interface {
	have(ctx context.Context, l *link, items []item) ([]tree.Entry, error)
	bundle(ctx context.Context, l *link, items []item) error
	file(ctx context.Context, l *link, it item) error
	attributes(ctx context.Context, l *link, items []item) error
}

// plan makes jobs of the entries of one source.
type plan struct {
	*transfer
	direction
	from     string // the source's path in its tree
	to       string // and its path at the destination
	patterns []string
	root     bool // the destination's own directory was made for this, and gets attributes

	items  []item // of the next bundle
	octets int64
	weight int
	dirs   []item // whose attributes are set when all is there
	names  []item // further names of files
}

// add makes a job of an entry, at once or with others.
func (p *plan) add(ctx context.Context, e tree.Entry, err error) error {
	it := item{from: e, to: e}
	if err != nil {
		p.report.failed(it, err)
		return nil
	}
	it.to.Path = p.destination(e.Path)
	switch {
	case p.excluded(e):
		return nil
	case e.Kind == tree.Other:
		p.report.failed(it, fmt.Errorf("a %v is not copied", e.Kind))
		return nil
	case e.Kind == tree.Dir && it.to.Path == "." && !p.root:
		return nil // it is there
	case e.Kind == tree.Dir:
		p.dirs = append(p.dirs, it)
	case e.Same != "":
		it.to.Same = p.destination(e.Same)
		p.names = append(p.names, it)
		return nil
	case e.Kind == tree.File:
		p.report.expect(e.Size)
		if e.Size > wire.Small {
			return p.submit(ctx, p.large(it))
		}
	}
	w := wire.Of(it.to)
	weight := w.Weight() + len(e.Path)
	if len(p.items) == wire.MaxEntries || p.octets+e.Size > wire.Chunk-wire.Small || p.weight+weight > wire.Room {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.items = append(p.items, it)
	p.weight += weight
	if e.Kind == tree.File {
		p.octets += e.Size
	}
	return nil
}

// destination returns where an entry of the source goes.
func (p *plan) destination(from string) string {
	if from == p.from {
		return p.to
	}
	if p.from != "." {
		from = strings.TrimPrefix(from, p.from+"/")
	}
	return path.Join(p.to, from)
}

// excluded reports whether a pattern leaves an entry out: one without a slash is held
// against its name, one with a slash against its path below the source.
func (p *plan) excluded(e tree.Entry) bool {
	rel := e.Path
	if p.from != "." {
		rel = strings.TrimPrefix(rel, p.from+"/")
	}
	for _, pat := range p.patterns {
		for at := rel; at != "."; at = path.Dir(at) { // what is in a directory goes with it
			text := at
			if !strings.Contains(pat, "/") {
				text = path.Base(at)
			}
			if doublestar.MatchUnvalidated(strings.Trim(pat, "/"), text) {
				return true
			}
		}
	}
	return false
}

// flush makes a job of the items of a bundle.
func (p *plan) flush(ctx context.Context) error {
	if len(p.items) == 0 {
		return nil
	}
	items := p.items
	p.items, p.octets, p.weight = nil, 0, 0
	return p.submit(ctx, func(ctx context.Context, l *link) error {
		rest, err := p.changed(ctx, l, items)
		if err != nil || len(rest) == 0 {
			return err
		}
		return p.bundle(ctx, l, rest)
	})
}

func (p *plan) large(it item) job {
	return func(ctx context.Context, l *link) error {
		rest, err := p.changed(ctx, l, []item{it})
		if err != nil || len(rest) == 0 {
			return err
		}
		return p.file(ctx, l, rest[0])
	}
}

// changed returns those of the items that are not at the destination yet. In a dry run
// it tells of them and returns none.
func (p *plan) changed(ctx context.Context, l *link, items []item) ([]item, error) {
	have, err := p.have(ctx, l, items)
	if err != nil {
		return nil, p.all(items, err)
	}
	var rest []item
	for i, it := range items {
		switch {
		case same(it.to, have[i]):
			p.report.unchanged(it)
		case p.dry:
			p.report.copied(it, it.to.Size, false)
		default:
			rest = append(rest, it)
		}
	}
	return rest, nil
}

// same reports whether an entry is there as it should be, as far as can be told without
// reading it.
func same(want, have tree.Entry) bool {
	if want.Kind != have.Kind {
		return false
	}
	switch want.Kind {
	case tree.Dir:
		return true // its attributes are set in any case
	case tree.Symlink:
		return want.Link == have.Link
	}
	return want.Size == have.Size && want.MTime.Equal(have.MTime) && want.Perm == have.Perm
}

// walk makes jobs of all entries of a source.
func (p *plan) walk(ctx context.Context, entries iter.Seq2[tree.Entry, error]) error {
	for e, err := range entries {
		if err := p.add(ctx, e, err); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// finish does what has to wait until all files are there.
func (p *plan) finish(ctx context.Context, l *link) (*link, error) {
	if p.dry {
		return l, nil
	}
	// Directories last, and the innermost first: what is put into one changes it.
	for i, j := 0, len(p.dirs)-1; i < j; i, j = i+1, j-1 {
		p.dirs[i], p.dirs[j] = p.dirs[j], p.dirs[i]
	}
	for _, part := range []struct {
		items []item
		do    func(context.Context, *link, []item) error
	}{{p.names, p.bundle}, {p.dirs, p.attributes}} {
		for len(part.items) > 0 {
			n := fits(part.items)
			var err error
			if l, err = p.try(
				ctx,
				l,
				func(ctx context.Context, l *link) error { return part.do(ctx, l, part.items[:n]) },
			); err != nil {
				return l, err
			}
			part.items = part.items[n:]
		}
	}
	return l, nil
}

// fits returns how many of the items go into a message.
func fits(items []item) int {
	weight := 0
	for i, it := range items {
		w := wire.Of(it.to)
		if weight += w.Weight(); i > 0 && (weight > wire.Room || i == wire.MaxEntries) {
			return i
		}
	}
	return len(items)
}
