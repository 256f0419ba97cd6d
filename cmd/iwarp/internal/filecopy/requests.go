package filecopy

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"

	"github.com/go-iwarp/iwarp"
)

// errReadOnly is the answer to what would change something.
var errReadOnly = errors.New("the server is read-only")

// do does what a request asks for. What cannot be done the reply says.
func (c *served) do(req *wire.Request) *wire.Reply {
	rep := new(wire.Reply)
	if err := c.handle(req, rep); err != nil {
		return &wire.Reply{Err: wire.ErrText(err)}
	}
	return rep
}

func (c *served) handle(req *wire.Request, rep *wire.Reply) error {
	h := handlers[req.Op]
	if h.do == nil {
		return fmt.Errorf("%v: not known here, or not now", req.Op)
	}
	if h.writes && c.readOnly {
		return errReadOnly
	}
	return h.do(c, req, rep)
}

// handlers say what is done for a request, and whether it changes the tree.
var handlers = map[wire.Op]struct {
	do     func(*served, *wire.Request, *wire.Reply) error
	writes bool
}{
	wire.List:    {do: (*served).listEntries},
	wire.Stat:    {do: (*served).stat},
	wire.Get:     {do: (*served).get},
	wire.Open:    {do: (*served).open},
	wire.Load:    {do: (*served).load},
	wire.Check:   {do: (*served).check},
	wire.Release: {do: (*served).release},
	wire.Put:     {do: (*served).put, writes: true},
	wire.Create:  {do: (*served).create, writes: true},
	wire.Probe:   {do: (*served).probe, writes: true},
	wire.Store:   {do: (*served).store, writes: true},
	wire.Commit:  {do: (*served).commit, writes: true},
	wire.SetAttr: {do: (*served).setAttr, writes: true},
}

// one returns the entry of a request that has one.
func one(req *wire.Request) (tree.Entry, error) {
	if len(req.Entries) != 1 {
		return tree.Entry{}, fmt.Errorf("%v with %d entries: expected one", req.Op, len(req.Entries))
	}
	return req.Entries[0].Tree()
}

// listing is a walk of which the client takes some entries at a time.
type listing struct {
	next func() (tree.Entry, error, bool)
	stop func()
}

func (c *served) listEntries(req *wire.Request, rep *wire.Reply) error {
	if len(req.Entries) > 0 {
		e, err := one(req)
		if err != nil {
			return err
		}
		if c.list != nil {
			c.list.stop()
		}
		ctx, cancel := context.WithCancel(context.Background()) // the connection's end stops it
		next, stop := iter.Pull2(c.session.tree.Walk(ctx, e.Path, req.Recursive, nil))
		c.list = &listing{next: next, stop: func() { cancel(); stop() }}
	}
	if c.list == nil {
		return errors.New("list without a path")
	}
	for weight := 0; len(rep.Entries) < wire.MaxEntries && weight < wire.Room; {
		e, err, ok := c.list.next()
		if !ok {
			c.list.stop()
			c.list = nil
			return nil
		}
		w := wire.Of(e)
		if err != nil {
			w = wire.Failed(e.Path, err)
		}
		rep.Entries = append(rep.Entries, w)
		weight += w.Weight()
	}
	rep.More = true
	return nil
}

func (c *served) stat(req *wire.Request, rep *wire.Reply) error {
	for i := range req.Entries {
		p := string(req.Entries[i].Path)
		e, err := c.session.tree.Lstat(p)
		if err != nil {
			rep.Entries = append(rep.Entries, wire.Failed(p, err))
			continue
		}
		rep.Entries = append(rep.Entries, wire.Of(e))
	}
	return nil
}

// get reads small files into the region, one behind the other.
func (c *served) get(req *wire.Request, rep *wire.Reply) error {
	at := 0
	for i := range req.Entries {
		p := string(req.Entries[i].Path)
		e, err := c.session.tree.ReadFile(p, c.region[at:min(at+wire.Small, len(c.region))])
		if err != nil {
			rep.Entries = append(rep.Entries, wire.Failed(p, err))
			continue
		}
		at += int(e.Size)
		rep.Entries = append(rep.Entries, wire.Of(e))
	}
	rep.Sum = wire.SumOf(c.region, wire.Whole(int64(at)))
	c.moved(len(req.Entries), at)
	return nil
}

func (c *served) moved(files, octets int) {
	c.count(func() {
		c.done.Files += uint64(files)
		c.done.Octets += uint64(octets)
	})
}

// put makes what the entries say. The octets of the files are in the region.
func (c *served) put(req *wire.Request, rep *wire.Reply) error {
	total := int64(0)
	for i := range req.Entries {
		if e := &req.Entries[i]; isData(e) {
			if e.Size < 0 || e.Size > wire.Chunk-total {
				return fmt.Errorf(
					"%q: %d octets behind %d others: the region has %d",
					e.Path,
					e.Size,
					total,
					wire.Chunk,
				)
			}
			total += e.Size
		}
	}
	if wire.SumOf(c.region, wire.Whole(total)) != req.Sum {
		return errors.New("the octets have another checksum than at the client")
	}
	at := int64(0)
	for i := range req.Entries {
		w := &req.Entries[i]
		var data []byte
		if isData(w) {
			data = c.region[at:][:w.Size:w.Size]
			at += w.Size
		}
		e, err := w.Tree()
		if err == nil {
			err = place(c.session.tree, e, data)
		}
		if err != nil {
			rep.Entries = append(rep.Entries, wire.Failed(e.Path, err))
		}
	}
	c.moved(len(req.Entries), int(total))
	return nil
}

// isData reports whether an entry has octets in a bundle.
func isData(e *wire.Entry) bool { return e.Kind == tree.File && len(e.Same) == 0 && e.Err == "" }

// place makes an entry in a tree: a small file of data, or what has no data.
func place(t *tree.Tree, e tree.Entry, data []byte) error {
	switch {
	case e.Same != "":
		return t.Link(e)
	case e.Kind == tree.File:
		return t.WriteFile(e, data)
	case e.Kind == tree.Dir:
		return t.Mkdir(e.Path)
	case e.Kind == tree.Symlink:
		return t.Symlink(e)
	}
	return fmt.Errorf("%s: a %v is not copied", e.Path, e.Kind)
}

func (c *served) setAttr(req *wire.Request, rep *wire.Reply) error {
	for i := range req.Entries {
		e, err := req.Entries[i].Tree()
		if err == nil {
			err = c.session.tree.SetAttr(e)
		}
		if err != nil {
			rep.Entries = append(rep.Entries, wire.Failed(e.Path, err))
		}
	}
	return nil
}

func (c *served) open(req *wire.Request, rep *wire.Reply) error {
	e, err := one(req)
	if err != nil {
		return err
	}
	if len(c.sources) >= maxSources {
		return fmt.Errorf("%d files are open on this connection, the most that may be", maxSources)
	}
	s := &source{}
	if s.Source, err = c.session.tree.OpenSource(e.Path); err != nil {
		return err
	}
	if m := s.Mapped(); m != nil {
		if s.mr, err = c.conn.NewMR(m, iwarp.RemoteRead); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	c.next++
	c.sources[c.next] = s
	rep.Handle, rep.Entries = c.next, []wire.Entry{wire.Of(s.Entry())}
	return nil
}

func (c *served) source(req *wire.Request) (*source, error) {
	if s := c.sources[req.Handle]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%v: file %d is not open on this connection", req.Op, req.Handle)
}

// load makes a chunk of a file ready to be read: where it is, and its checksum.
func (c *served) load(req *wire.Request, rep *wire.Reply) error {
	s, err := c.source(req)
	if err != nil {
		return err
	}
	if err := wire.CheckRange(req.Off, req.Len, nil, s.Entry().Size); err != nil {
		return err
	}
	if rep.Spans, err = s.Data(req.Off, req.Len); err != nil {
		return err
	}
	var at iwarp.RemoteBuffer
	if s.mr != nil {
		at = s.mr.Remote().Slice(uint64(req.Off), uint64(req.Len))
		err = s.Guarded(func() { rep.Sum = wire.SumOf(s.Mapped()[req.Off:][:req.Len], rep.Spans) })
	} else {
		at = c.mr.Remote().Slice(0, uint64(req.Len))
		if err = s.ReadAt(c.region[:req.Len], req.Off); err == nil {
			rep.Sum = wire.SumOf(c.region, rep.Spans)
		}
	}
	if err != nil {
		return err
	}
	c.moved(0, int(req.Len))
	rep.Region, err = at.MarshalBinary()
	return err
}

func (c *served) check(req *wire.Request, _ *wire.Reply) error {
	s, err := c.source(req)
	if err != nil {
		return err
	}
	return s.Changed()
}

func (c *served) release(req *wire.Request, _ *wire.Reply) error {
	if s := c.sources[req.Handle]; s != nil {
		delete(c.sources, req.Handle)
		s.end()
		c.moved(1, 0)
		return nil
	}
	k, err := c.session.take(req)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	return k.Suspend()
}

func (c *served) create(req *wire.Request, rep *wire.Reply) error {
	e, err := one(req)
	if err != nil {
		return err
	}
	x := c.session
	x.mu.Lock()
	full := len(x.sinks) >= maxSinks
	x.mu.Unlock()
	if full {
		return fmt.Errorf("%d files are being made, the most that may be", maxSinks)
	}
	t, err := x.tree.Create(e)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next++
	x.sinks[sinkHandle|x.next] = &sink{Sink: t, entry: e}
	rep.Handle, rep.Resumed = sinkHandle|x.next, t.Resumed()
	return nil
}

// sinkHandle tells the handles of files that are being made, which are a session's, from
// those of open files, which are a connection's.
const sinkHandle = 1 << 63

// sink returns the file that a request is about.
func (x *session) sink(req *wire.Request) (*sink, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.sinks[req.Handle]
	if k == nil {
		return nil, fmt.Errorf("%v: file %d is not being made", req.Op, req.Handle)
	}
	return k, nil
}

// take returns it and forgets it.
func (x *session) take(req *wire.Request) (*sink, error) {
	k, err := x.sink(req)
	if err == nil {
		x.mu.Lock()
		delete(x.sinks, req.Handle)
		x.mu.Unlock()
	}
	return k, err
}

// writing calls f with the file that a request is about, which stays open meanwhile.
func (c *served) writing(req *wire.Request, f func(k *sink) error) error {
	k, err := c.session.sink(req)
	if err != nil {
		return err
	}
	if err := wire.CheckRange(req.Off, req.Len, req.Spans, k.entry.Size); err != nil {
		return err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.ended {
		return fmt.Errorf("%v: file %d has ended", req.Op, req.Handle)
	}
	return f(k)
}

// probe reports whether a file that is being made has octets already.
func (c *served) probe(req *wire.Request, rep *wire.Reply) error {
	return c.writing(req, func(k *sink) error {
		if c.scratch == nil {
			c.scratch = make([]byte, wire.Chunk)
		}
		var err error
		rep.Have, err = has(k.Sink, req.Off, req.Spans, c.scratch[:req.Len], req.Sum)
		if err == nil && rep.Have {
			err = zeroHoles(k.Sink, req.Off, req.Len, req.Spans)
		}
		return err
	})
}

// store writes octets of the region into a file that is being made.
func (c *served) store(req *wire.Request, _ *wire.Reply) error {
	return c.writing(req, func(k *sink) error {
		if wire.SumOf(c.region, req.Spans) != req.Sum {
			return errors.New("the octets have another checksum than at the client")
		}
		c.moved(0, int(req.Len))
		return write(k.Sink, req.Off, req.Len, req.Spans, c.region)
	})
}

func (c *served) commit(req *wire.Request, _ *wire.Reply) error {
	e, err := one(req)
	if err != nil {
		return err
	}
	k, err := c.session.take(req)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended { // another connection was first
		return fmt.Errorf("%v: file %d has ended", req.Op, req.Handle)
	}
	k.ended = true
	if e.Path != k.entry.Path || e.Size != k.entry.Size {
		return errors.Join(
			fmt.Errorf("commit of %q, %d octets: it is %q, %d octets", e.Path, e.Size, k.entry.Path, k.entry.Size),
			k.Abandon(),
		)
	}
	c.moved(1, 0)
	return k.Commit(e)
}
