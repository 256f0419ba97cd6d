package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
)

// upload copies entries of a tree here to the server.
type upload struct {
	*transfer
	local *tree.Tree
}

// have returns the entries at the destination of items, as they are now.
func (u *upload) have(ctx context.Context, l *link, items []item) ([]tree.Entry, error) {
	req := &wire.Request{Op: wire.Stat}
	for _, it := range items {
		req.Entries = append(req.Entries, wire.Entry{Path: []byte(it.to.Path)})
	}
	rep, err := l.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(rep.Entries) != len(items) {
		return nil, fmt.Errorf("stat: %d entries: expected %d", len(rep.Entries), len(items))
	}
	list := make([]tree.Entry, len(items))
	for i := range rep.Entries {
		list[i], _ = rep.Entries[i].Tree() // what cannot be told is made anew
	}
	return list, nil
}

// bundle puts small files, and what has no octets, in place.
func (u *upload) bundle(ctx context.Context, l *link, items []item) error {
	req := &wire.Request{Op: wire.Put}
	var sent []item
	at := 0
	for _, it := range items {
		e := it.to
		if e.Kind == tree.File && e.Same == "" {
			got, err := u.local.ReadFile(it.from.Path, l.buf[at:min(at+wire.Small, len(l.buf))])
			if err != nil {
				u.report.failed(it, err)
				continue
			}
			got.Path = e.Path
			e = got
			at += int(e.Size)
		}
		req.Entries = append(req.Entries, wire.Of(e))
		sent = append(sent, it)
	}
	if len(sent) == 0 {
		return nil
	}
	if err := u.wait(ctx, int64(at)); err != nil {
		return err
	}
	whole := wire.Whole(int64(at))
	req.Sum = wire.SumOf(l.buf, whole)
	if err := l.push(ctx, l.buf, whole); err != nil {
		return err
	}
	rep, err := l.ask(ctx, req)
	if err != nil {
		return u.all(sent, err)
	}
	bad := map[string]error{}
	for i := range rep.Entries {
		bad[string(rep.Entries[i].Path)] = &serverError{rep.Entries[i].Err}
	}
	for _, it := range sent {
		if err := bad[it.to.Path]; err != nil {
			u.report.failed(it, err)
			continue
		}
		u.report.copied(it, it.from.Size, false)
	}
	return nil
}

// all reports an error that concerns all of some items, if it is not the connection's.
func (t *transfer) all(items []item, err error) error {
	if !isFileError(err) {
		return err
	}
	for _, it := range items {
		t.report.failed(it, err)
	}
	return nil
}

// attributes sets those of directories.
func (u *upload) attributes(ctx context.Context, l *link, items []item) error {
	req := &wire.Request{Op: wire.SetAttr}
	for _, it := range items {
		req.Entries = append(req.Entries, wire.Of(it.to))
	}
	rep, err := l.ask(ctx, req)
	if err != nil {
		return u.all(items, err)
	}
	for i := range rep.Entries {
		u.report.failed(item{from: tree.Entry{Path: string(rep.Entries[i].Path)}}, &serverError{rep.Entries[i].Err})
	}
	return nil
}

// file copies a file in chunks.
func (u *upload) file(ctx context.Context, l *link, it item) error {
	src, err := u.local.OpenSource(it.from.Path)
	if err != nil {
		u.report.failed(it, err)
		return nil
	}
	defer src.Close()
	it.to.Size, it.to.MTime, it.to.Perm = src.Entry().Size, src.Entry().MTime, src.Entry().Perm
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Create, Entries: []wire.Entry{wire.Of(it.to)}})
	if err != nil {
		return u.all([]item{it}, err)
	}
	p := &push{upload: u, src: src, handle: rep.Handle, resumed: rep.Resumed, item: it}
	err = u.chunks(ctx, l, it.to.Size, p.chunk)
	if changed := src.Changed(); changed != nil {
		err = changed
	}
	if err == nil {
		_, err = l.ask(ctx, &wire.Request{Op: wire.Commit, Handle: p.handle, Entries: []wire.Entry{wire.Of(it.to)}})
	}
	if err == nil {
		u.report.copied(it, 0, rep.Resumed)
		return nil
	}
	p.giveUp(ctx, l)
	if errors.Is(err, tree.ErrChanged) || errors.Is(err, fs.ErrClosed) {
		u.report.failed(it, err)
		return nil
	}
	return u.all([]item{it}, err)
}

// push is a file on its way to the server.
type push struct {
	*upload
	src     *tree.Source
	handle  uint64
	resumed bool
	item    item
}

// giveUp has the server let go of what it has, if it can be asked.
func (p *push) giveUp(ctx context.Context, l *link) {
	if l.dead() || ctx.Err() != nil {
		return
	}
	_, _ = l.ask(ctx, &wire.Request{Op: wire.Release, Handle: p.handle})
}

// chunk copies a chunk, unless the server has it from an earlier run.
func (p *push) chunk(ctx context.Context, l *link, off, n int64) error {
	spans, err := p.src.Data(off, n)
	if err != nil {
		return err
	}
	req := &wire.Request{Op: wire.Store, Handle: p.handle, Off: off, Len: n, Spans: spans}
	chunk := l.buf[:n]
	if m := p.src.Mapped(); m != nil {
		chunk = m[off:][:n]
		err = p.src.Guarded(func() { req.Sum = wire.SumOf(chunk, req.Spans) })
	} else if err = p.src.ReadAt(chunk, off); err == nil {
		req.Sum = wire.SumOf(chunk, req.Spans)
	}
	if err != nil {
		return err
	}
	if p.resumed {
		probe := *req
		probe.Op = wire.Probe
		rep, err := l.ask(ctx, &probe)
		if err != nil {
			return err
		}
		if rep.Have {
			p.report.progress(n, 0, octets(req.Spans))
			return nil
		}
	}
	if err := l.push(ctx, chunk, req.Spans); err != nil {
		return err
	}
	if _, err = l.ask(ctx, req); err == nil {
		p.report.progress(n, octets(req.Spans), 0)
	}
	return err
}
