package main

// programMutants are of the root package: policies, limits, the end of a
// connection.
var programMutants = []mutant{
	{
		name: "region-bound-to-nobody", ids: "RDMAP-8.1.1-02, DDP-8.3-03, DDP-8.2-03", in: "iwarp.PD.NewMR",
		old: "c.Stream = o.QP.stream", new: "_ = o.QP.stream",
	},
	{
		name: "one-domain-for-all", ids: "SEC-6.1.1-01", in: "iwarp.Device.newPD", old: "id: ddp.PD(d.lastPD.Add(1))}",
		new: "id: 1}",
	},
	{
		name: "rights-to-memory-not-asked", ids: "SEC-7.3-01, DDP-8.3.2-04", in: "iwarp.PD.authorize",
		old: "if err := p.mayGrant(buf, access); err != nil {",
		new: "if err := p.mayGrant(buf, access); err != nil && buf == nil {",
	},
	{
		name: "quota-ignored", ids: "DDP-8.3.2-02, RDMAP-8.1.2-01", in: "iwarp.account.check",
		old: "limit > 0 && n > limit-a.used[r] {", new: "limit > 0 && n > limit {",
	},
	{
		name: "reserve-ignored", ids: "DDP-8.3.2-05, RDMAP-8.1.2-05", in: "iwarp.manager.take",
		old: "limit -= max(0, t.reserve[r]-t.used[r])", new: "limit -= 0",
	},
	{
		name: "cq-overflows", ids: "SEC-6.4.3.2-01, SEC-6.4.6-01", in: "iwarp.CQ.reserve",
		old: "if used+int64(n) > int64(q.depth) {", new: "if q.count()+n > q.depth {",
	},
	{
		name: "srq-share-ignored", ids: "SEC-6.4.3.1-01, DDP-8.3.2-06", in: "iwarp.SRQ.take",
		old: "q.shares[qp] >= q.cfg.MaxShare", new: "q.shares[qp] >= q.cfg.Depth+1",
	},
	{
		name: "pending-per-peer-ignored", ids: "SEC-6.4.1-01", in: "iwarp.pending.enter", old: "case p.n >= t.perPeer:",
		new: "case p.n >= t.perPeer+1000:",
	},
	{
		name: "silent-startups-keep-their-room", ids: "SEC-6.4.1-01", in: "iwarp.pending.enter",
		old: "if t.dropping == 0 && len(t.bySilent) > 0 {", new: "if t.dropping > 0 && len(t.bySilent) > 0 {",
	},
	{
		name: "no-descriptors-and-no-less", ids: "SEC-6.4.1-01", in: "iwarp.pending.relieve",
		old: "t.limit, t.lowered = max(1, min(t.limit, live-1-live/8)), now", new: "t.lowered = now",
	},
	{
		name: "the-newest-goes", ids: "SEC-6.4.1-01", in: "iwarp.pending.enter", old: "s.silent = p.silent.PushBack(s)",
		new: "s.silent = p.silent.PushFront(s)",
	},
	{
		name: "the-proven-go", ids: "SEC-6.4.1-01", in: "iwarp.pending.proven", old: "t.stats.Requests++; t.speaks(s)",
		new: "t.stats.Requests++",
	},
	{
		name: "the-few-pay-for-the-many", ids: "SEC-6.4.1-01", in: "iwarp.silentHeap.Less",
		old: "a != b { return a > b", new: "a != b { return a < b",
	},
	{
		name: "reads-without-a-cap", ids: "SEC-6.4.3.3-02, RDMAP-8.1.1-11", in: "iwarp.Config.check",
		old: "f.value > c.Device.limits.MaxRead {", new: "f.value > 16382 {",
	},
	{
		name: "window-beyond-its-region", ids: "RDMAP-8.1.1-03, SEC-6.2.1-01", in: "iwarp.Bind.prepare",
		old: "if b.Offset > size || b.Length > size-b.Offset {", new: "if b.Offset > size {",
	},
	{
		name: "window-outlives-its-region", ids: "RDMAP-8.1.1-06, SEC-6.2.2-02", in: "ddp.Region.Invalidate",
		old: "r.valid = false; r.guard.unlock(); r.leaveToWindows(0)", new: "r.valid = false; r.guard.unlock()",
	},
	{
		name: "window-keeps-its-rights", ids: "RDMAP-8.1.1-06, SEC-6.2.2-02", in: "ddp.Region.SetAccess",
		old: "r.leaveToWindows(a)", new: "",
	},
	{
		name: "window-outlives-the-key", ids: "RDMAP-8.1.1-06, SEC-6.2.2-02", in: "ddp.Region.Rekey",
		old: "r.leaveToWindows(0)", new: "",
	},
	{
		name: "window-valid-before-its-turn", ids: "RDMAP-8.1.1-04", in: "ddp.Table.Register",
		old: "valid: c.Parent == nil", new: "valid: true",
	},
	{
		name: "reset-instead-of-fin", ids: "RDMAP-6.2.1-04, DDP-6.2.1-01", in: "iwarp.Conn.closeHalf",
		old: "err := c.llp.CloseWrite()", new: "err := c.llp.Abort()",
	},
	{
		name: "fin-not-sent", ids: "DDP-6.2.1-05, DDP-6.2.1-06, DDP-3-09", in: "iwarp.Conn.closeHalf",
		old: "err := c.llp.CloseWrite()", new: "var err error",
	},
	{
		name: "mpa-error-without-terminate", ids: "RDMAP-6.2.1-01, MPA-8-10", in: "iwarp.Conn.receiveEnded",
		old: "c.stream.Fail(perr, intact)", new: "c.stream.Fail(perr, false)",
	},
	{
		name: "mpa-error-not-told", ids: "MPA-8-06, DDP-7-01, RDMAP-7.1-01", in: "iwarp.Conn.receiveEnded",
		old: "if !perr.Remote { c.stream.Fail", new: "if perr.Remote { c.stream.Fail",
	},
	{
		name: "peer-never-closes", ids: "RDMAP-6.2.1-03, DDP-6.2-02", in: "iwarp.Conn.timeUp",
		old: `c.cut("close", cause) }`, new: "_ = cause }", tests: []string{". TestCloseTimeout"},
	},
	{
		name: "connection-stays-open", ids: "DDP-3-10", in: "iwarp.Conn.halfEnded", old: "c.drop(); c.setState(done)",
		new: "c.setState(done)",
	},
}
