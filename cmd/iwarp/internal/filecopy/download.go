package filecopy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"

	"github.com/go-iwarp/iwarp"
)

// download copies entries at the server into a tree here.
type download struct {
	*transfer
	local *tree.Tree
}

// have returns the entries at the destination of items, as they are now.
func (d *download) have(_ context.Context, _ *link, items []item) ([]tree.Entry, error) {
	list := make([]tree.Entry, len(items))
	for i, it := range items {
		list[i], _ = d.local.Lstat(it.to.Path) // what cannot be told is made anew
	}
	return list, nil
}

// bundle fetches small files, and makes what has no octets.
func (d *download) bundle(ctx context.Context, l *link, items []item) error {
	req := &wire.Request{Op: wire.Get}
	var asked []item
	for _, it := range items {
		if it.to.Kind == tree.File && it.to.Same == "" {
			req.Entries = append(req.Entries, wire.Entry{Path: []byte(it.from.Path)})
			asked = append(asked, it)
			continue
		}
		d.place(it, it.to, nil)
	}
	if len(asked) == 0 {
		return nil
	}
	rep, err := l.ask(ctx, req)
	if err != nil {
		return d.all(asked, err)
	}
	if len(rep.Entries) != len(asked) {
		return errFatal{fmt.Errorf("get: %d entries: expected %d", len(rep.Entries), len(asked))}
	}
	return d.placeAll(ctx, l, asked, rep)
}

// placeAll reads the files of a reply and puts them in place.
func (d *download) placeAll(ctx context.Context, l *link, asked []item, rep *wire.Reply) error {
	got := make([]tree.Entry, len(asked))
	total := int64(0)
	for i := range rep.Entries {
		e, err := rep.Entries[i].Tree()
		if err == nil && (e.Kind != tree.File || e.Size > wire.Chunk-total) {
			return errFatal{
				fmt.Errorf(
					"get: %q, a %v of %d octets behind %d others: the region has %d",
					e.Path,
					e.Kind,
					e.Size,
					total,
					wire.Chunk,
				),
			}
		}
		if err != nil {
			d.report.failed(asked[i], err)
			continue
		}
		e.Path = asked[i].to.Path
		got[i] = e
		total += e.Size
	}
	if err := d.wait(ctx, total); err != nil {
		return err
	}
	whole := wire.Whole(total)
	if err := l.fetch(ctx, l.region, whole); err != nil {
		return err
	}
	if wire.SumOf(l.buf, whole) != rep.Sum {
		return errors.New("get: the octets have another checksum than at the server")
	}
	at := int64(0)
	for i, e := range got {
		if e.Kind == tree.None {
			continue
		}
		d.place(asked[i], e, l.buf[at:][:e.Size])
		at += e.Size
	}
	return nil
}

func (d *download) place(it item, e tree.Entry, data []byte) {
	if err := place(d.local, e, data); err != nil {
		d.report.failed(it, err)
		return
	}
	d.report.copied(it, e.Size, false)
}

// attributes sets those of directories.
func (d *download) attributes(_ context.Context, _ *link, items []item) error {
	for _, it := range items {
		if err := d.local.SetAttr(it.to); err != nil {
			d.report.failed(it, err)
		}
	}
	return nil
}

// pull is a file on its way from the server.
type pull struct {
	*download
	item  item
	sink  *tree.Sink
	ended atomic.Bool
}

// file copies a file in chunks.
func (d *download) file(ctx context.Context, l *link, it item) error {
	p := &pull{download: d, item: it}
	defer p.ended.Store(true)
	h, err := l.handle(ctx, p)
	if err != nil {
		return d.all([]item{it}, err)
	}
	if p.sink, err = d.local.Create(it.to); err != nil {
		d.report.failed(it, err)
		return nil
	}
	resumed := p.sink.Resumed()
	err = d.chunks(ctx, l, it.to.Size, p.chunk)
	if err == nil {
		_, err = l.ask(ctx, &wire.Request{Op: wire.Check, Handle: h})
	}
	if err != nil {
		_ = p.sink.Suspend()
		return d.all([]item{it}, err)
	}
	if err := p.sink.Commit(it.to); err != nil {
		d.report.failed(it, err)
		return nil
	}
	d.report.copied(it, 0, resumed)
	return nil
}

// handle opens a file on this connection, if it is not open. The first connection finds
// out what the file is now.
func (l *link) handle(ctx context.Context, p *pull) (uint64, error) {
	if h, ok := l.open[p]; ok {
		return h, nil
	}
	for q, h := range l.open {
		if q.ended.Load() {
			delete(l.open, q)
			if _, err := l.ask(ctx, &wire.Request{Op: wire.Release, Handle: h}); err != nil {
				return 0, err
			}
		}
	}
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Open, Entries: []wire.Entry{{Path: []byte(p.item.from.Path)}}})
	if err != nil {
		return 0, err
	}
	if len(rep.Entries) != 1 {
		return 0, fmt.Errorf("open: %d entries: expected one", len(rep.Entries))
	}
	e, err := rep.Entries[0].Tree()
	if err != nil {
		return 0, err
	}
	if p.sink == nil {
		p.item.to.Size, p.item.to.MTime, p.item.to.Perm = e.Size, e.MTime, e.Perm
	} else if e.Size != p.item.to.Size || !e.MTime.Equal(p.item.to.MTime) {
		return 0, &serverError{fmt.Sprintf("%s: %v", e.Path, tree.ErrChanged)}
	}
	l.open[p] = rep.Handle
	return rep.Handle, nil
}

// chunk copies a chunk, unless it is here from an earlier run.
func (p *pull) chunk(ctx context.Context, l *link, off, n int64) error {
	h, err := l.handle(ctx, p)
	if err != nil {
		return err
	}
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Load, Handle: h, Off: off, Len: n})
	if err != nil {
		return err
	}
	if err := wire.CheckRange(0, n, rep.Spans, n); err != nil {
		return errFatal{fmt.Errorf("load: %w", err)}
	}
	have, err := has(p.sink, off, rep.Spans, l.buf[:n], rep.Sum)
	if err != nil {
		return err
	}
	if have {
		p.report.progress(n, 0, octets(rep.Spans))
		return zeroHoles(p.sink, off, n, rep.Spans)
	}
	var from iwarp.RemoteBuffer
	if from, err = wire.Buffer(rep.Region); err != nil {
		return errFatal{fmt.Errorf("load: %w", err)}
	}
	if err := l.fetch(ctx, from, rep.Spans); err != nil {
		return err
	}
	if wire.SumOf(l.buf, rep.Spans) != rep.Sum {
		return &serverError{
			fmt.Sprintf("%s: the octets at %d have another checksum than at the server", p.item.from.Path, off),
		}
	}
	p.report.progress(n, octets(rep.Spans), 0)
	return write(p.sink, off, n, rep.Spans, l.buf)
}
