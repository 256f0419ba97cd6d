package main

// programMutants are of the root package: policies, limits, the end of a
// connection.
var programMutants = []mutant{
	{name: "region-bound-to-nobody", ids: "RDMAP-8.1.1-02, DDP-8.3-03, DDP-8.2-03", file: "mr.go", old: "c.Stream = o.QP.stream", new: "_ = o.QP.stream"},
	{name: "one-domain-for-all", ids: "SEC-6.1.1-01", file: "device.go", old: "id: ddp.PD(d.lastPD.Add(1))}", new: "id: 1}"},
	{name: "rights-to-memory-not-asked", ids: "SEC-7.3-01, DDP-8.3.2-04", file: "mr.go", old: "if err := p.mayGrant(buf, access); err != nil {", new: "if err := p.mayGrant(buf, access); err != nil && buf == nil {"},
	{name: "quota-ignored", ids: "DDP-8.3.2-02, RDMAP-8.1.2-01", file: "manager.go", old: "limit > 0 && n > limit-a.used[r] {", new: "limit > 0 && n > limit {"},
	{name: "reserve-ignored", ids: "DDP-8.3.2-05, RDMAP-8.1.2-05", file: "manager.go", old: "limit -= max(0, t.reserve[r]-t.used[r])", new: "limit -= 0"},
	{name: "cq-overflows", ids: "SEC-6.4.3.2-01, SEC-6.4.6-01", file: "cq.go", old: "if used+int64(n) > int64(q.depth) {", new: "if q.count+n > q.depth {"},
	{name: "srq-share-ignored", ids: "SEC-6.4.3.1-01, DDP-8.3.2-06", file: "srq.go", old: "q.shares[qp] >= q.cfg.MaxShare", new: "q.shares[qp] >= q.cfg.Depth+1"},
	{name: "pending-per-peer-ignored", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "case p.n >= t.perPeer:", new: "case p.n >= t.perPeer+1000:"},
	{name: "silent-startups-keep-their-room", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "if t.dropping == 0 && len(t.bySilent) > 0 {", new: "if t.dropping > 0 && len(t.bySilent) > 0 {"},
	{name: "no-descriptors-and-no-less", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "t.limit, t.lowered = max(1, min(t.limit, live-1-live/8)), now", new: "t.lowered = now"},
	{name: "the-newest-goes", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "s.silent = p.silent.PushBack(s)", new: "s.silent = p.silent.PushFront(s)"},
	{name: "the-proven-go", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "t.stats.Requests++\n\tt.speaks(s)\n", new: "t.stats.Requests++\n"},
	{name: "the-few-pay-for-the-many", ids: "SEC-6.4.1-01", file: "listen_pending.go", old: "a != b {\n\t\treturn a > b", new: "a != b {\n\t\treturn a < b"},
	{name: "reads-without-a-cap", ids: "SEC-6.4.3.3-02, RDMAP-8.1.1-11", file: "config.go", old: "f.value > c.Device.limits.MaxRead {", new: "f.value > 16382 {"},
	{name: "window-beyond-its-region", ids: "RDMAP-8.1.1-03, SEC-6.2.1-01", file: "mw.go", old: "if b.Offset > size || b.Length > size-b.Offset {", new: "if b.Offset > size {"},
	{name: "window-outlives-its-region", ids: "RDMAP-8.1.1-06, SEC-6.2.2-02", file: "ddp/region.go", old: "r.valid = false\n\tr.guard.unlock()\n\tr.leaveToWindows(0)", new: "r.valid = false\n\tr.guard.unlock()"},
	{name: "window-valid-before-its-turn", ids: "RDMAP-8.1.1-04", file: "ddp/table.go", old: "valid: c.Parent == nil", new: "valid: true"},
	{name: "reset-instead-of-fin", ids: "RDMAP-6.2.1-04, DDP-6.2.1-01", file: "lifetime.go", old: "err := c.llp.CloseWrite()", new: "err := c.llp.Abort()"},
	{name: "fin-not-sent", ids: "DDP-6.2.1-05, DDP-6.2.1-06, DDP-3-09", file: "lifetime.go", old: "err := c.llp.CloseWrite()", new: "var err error"},
	{name: "mpa-error-without-terminate", ids: "RDMAP-6.2.1-01, MPA-8-10", file: "conn_recv.go", old: "c.stream.Fail(perr, intact)", new: "c.stream.Fail(perr, false)"},
	{name: "mpa-error-not-told", ids: "MPA-8-06, DDP-7-01, RDMAP-7.1-01", file: "conn_recv.go", old: "if !perr.Remote {\n\t\tc.stream.Fail", new: "if perr.Remote {\n\t\tc.stream.Fail"},
	{name: "peer-never-closes", ids: "RDMAP-6.2.1-03, DDP-6.2-02", file: "close_timeout.go", old: "\tc.cut(\"close\", cause)\n}\n\n// progress is", new: "\t_ = cause\n}\n\n// progress is", tests: []string{". TestCloseTimeout"}},
	{name: "connection-stays-open", ids: "DDP-3-10", file: "lifetime.go", old: "\tc.drop()\n\tc.setState(done)", new: "\tc.setState(done)"},
}
