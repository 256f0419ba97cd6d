package main

var ddpMutants = []mutant{
	// headers
	{name: "flag-l", ids: "DDP-4.1-01", in: "ddp.bitLast", old: "bitLast      = 0x40", new: "bitLast      = 0x20"},
	{
		name: "flag-t", ids: "DDP-4.1-02, DDP-4.1-01", in: "ddp.bitTagged", old: "bitTagged    = 0x80",
		new: "bitTagged    = 0x20",
	},
	{
		name: "dv-two-bits", ids: "DDP-4.1-01", in: "ddp.maskVersion", old: "maskVersion  = 0x03",
		new: "maskVersion  = 0x01",
	},
	{
		name: "rsvd-sent", ids: "DDP-4.1-07", in: "ddp.Header.AppendTo", old: "first := h.Reserved<<2&maskReserved |",
		new: "first := h.Reserved<<2&maskReserved | 4 |",
	},
	{
		name: "rsvd-checked", ids: "DDP-4.1-07", in: "ddp.Receiver.place", old: "if h.Version != r.version {",
		new: "if h.Version != r.version || h.Reserved != 0 {",
	},
	{
		name: "to-little-endian", ids: "DDP-4.2-01", in: "ddp.Header.parse",
		old: "h.TO = binary.BigEndian.Uint64(b[6:])", new: "h.TO = binary.LittleEndian.Uint64(b[6:])",
	},
	{
		name: "mo-in-the-wrong-place", ids: "DDP-4.3-01", in: "ddp.Header.parse",
		old: "h.MO = binary.BigEndian.Uint32(b[14:])", new: "h.MO = binary.BigEndian.Uint32(b[10:])",
	},
	{
		name: "rsvdulp-lost", ids: "DDP-4.3-03, DDP-4.3-01", in: "ddp.Header.parse",
		old: "h.ULP32 = binary.BigEndian.Uint32(b[2:])", new: "h.ULP32 = 0",
	},

	// the source
	{
		name: "message-of-4-gib", ids: "DDP-5.2-02", in: "ddp.Outgoing.Start", old: "if total > math.MaxUint32 {",
		new: "if total > 1<<40 {",
	},
	{
		name: "segment-above-mulpdu", ids: "DDP-5.2-01, MPA-3-03", in: "ddp.Outgoing.room",
		old: "max(mulpdu, 0)-o.encoded", new: "max(mulpdu, 0)",
	},
	{
		name: "segment-below-mulpdu", ids: "MPA-4.5-04", in: "ddp.Outgoing.room", old: "max(mulpdu, 0)-o.encoded",
		new: "max(mulpdu, 0)-o.encoded-4",
	},
	{
		name: "l-on-every-segment", ids: "DDP-4.1-03", in: "ddp.Outgoing.Next", old: "header[0] |= bitLast }",
		new: "}; header[0] |= bitLast",
	},
	{name: "l-never", ids: "DDP-4.1-03", in: "ddp.Outgoing.Next", old: "header[0] |= bitLast", new: "header[0] |= 0"},
	{
		name: "an-empty-segment-more", ids: "MPA-4.5-04", in: "ddp.Outgoing.Next", old: "if n >= o.remaining {",
		new: "if n > o.remaining || o.remaining == 0 {",
	},
	{name: "to-stays", ids: "DDP-5.2-06", in: "ddp.Outgoing.Next", old: "h.TO += n", new: "h.TO += 0 * n"},
	{
		name: "mo-stays", ids: "DDP-5.2-05, DDP-4.1-05", in: "ddp.Outgoing.Next", old: "h.MO += uint32(n)",
		new: "h.MO += 0 * uint32(n)",
	},
	{
		name: "mo-starts-at-1", ids: "DDP-4.3-11, DDP-5.2-05", in: "ddp.Outgoing.Start", old: "h.MO, h.Last = 0, false",
		new: "h.MO, h.Last = 1, false",
	},
	{
		name: "msn-starts-at-0", ids: "DDP-4.3-07", in: "rdmap.sender.untagged", old: "MSN: t.msn[qn]}",
		new: "MSN: t.msn[qn] - 1}",
	},
	{name: "msn-stays", ids: "DDP-4.3-08", in: "rdmap.sender.untagged", old: "t.msn[qn]++", new: "t.msn[qn] += 0"},
	{
		name: "msn-wraps-to-1", ids: "DDP-4.3-09", in: "rdmap.sender.untagged", old: "t.msn[qn]++",
		new: "t.msn[qn] = max(t.msn[qn]+1, 1)",
	},

	// the sink
	{
		name: "sink-msn-wraps-to-1", ids: "DDP-4.3-09", in: "ddp.queue.finish", old: "q.next++",
		new: "q.next = max(q.next+1, 1)",
	},
	{
		name: "early-unchecked", ids: "DDP-7.1-08", in: "rdmap.upcalls.CheckEarly",
		old: "Need: ddp.RemoteWrite", new: "Need: ddp.RemoteRead",
	},
	{
		name: "early-not-told", ids: "MPA-3-08", in: "ddp.Receiver.Early",
		old: "return len(payload)", new: "return 0",
	},
	{
		name: "early-without-its-buffer", ids: "DDP-7.1-06", in: "ddp.Receiver.placeEarly",
		old: "h.MSN != q.next ||", new: "",
	},
	{name: "held-while-delivering", ids: "DDP-8.3.1-05", in: "ddp.Receiver.pass", old: "r.letGo()", new: ""},
	{
		name: "held-after-an-error", ids: "DDP-8.3.1-05", in: "ddp.Receiver.failed",
		old: "r.letGo(); r.err = blame(e, h, segment)", new: "r.err = blame(e, h, segment)",
	},
	{
		name: "held-for-another-region", ids: "DDP-8.3.1-05", in: "ddp.holding.fits",
		old: "h.Tagged && h.STag == k.stag &&", new: "h.Tagged &&",
	},
	{
		name: "dv-not-checked", ids: "DDP-4.1-08", in: "ddp.Receiver.place", old: "if h.Version != r.version {",
		new: "if h.Version > 3 {",
	},
	{
		name: "qn-not-checked", ids: "DDP-7.1-01", in: "ddp.queues.get", old: "if q.source == nil {",
		new: "if q == nil {",
	},
	{
		name: "msn-not-checked", ids: "DDP-7.1-06", in: "ddp.Receiver.placeUntagged",
		old: "if h.MSN-q.next >= uint32(window) {", new: "if h.MSN-q.next >= 1<<31 {",
	},
	{
		name: "no-buffer-told-as-msn", ids: "DDP-7.1-02", in: "ddp.Receiver.placeUntagged", old: "return noBuffer(h)",
		new: "return badMSN(h, q.next, window)",
	},
	{
		name: "mo-not-checked", ids: "DDP-7.1-04", in: "ddp.inbound.mayPass", old: "case !m.passed.admits(off, n):",
		new: "case !m.passed.admits(off, n) && off > m.passed.next:",
	},
	{
		name: "mo-beyond-the-buffer", ids: "DDP-7.1-04", in: "ddp.Receiver.placeUntagged", old: "case off > m.limit:",
		new: "case off > m.limit+1<<40:",
	},
	{
		name: "message-longer-than-the-buffer", ids: "DDP-7.1-05", in: "ddp.Receiver.placeUntagged",
		old: "case !fits(off, n, min(m.limit, math.MaxUint32)):", new: "case !fits(off, n, math.MaxUint32):",
	},
	{
		name: "empty-tagged-checked", ids: "DDP-5.2-08", in: "ddp.Receiver.placeTagged", old: "case len(payload) == 0:",
		new: "case len(payload) == 0 && h.STag > 1:",
	},
	{
		name: "placing-after-an-error", ids: "DDP-7.1-13", in: "ddp.Receiver.Segment", old: "if r.err != nil { r.stats",
		new: "if r.err != nil && len(seg) == 0 { r.stats",
	},
	{
		name: "delivered-before-placed", ids: "DDP-5.4-02, DDP-5.3-06, DDP-4.1-06", in: "ddp.Receiver.Segment",
		old: "inOrder = order == r.reorder.next", new: "inOrder = order >= r.reorder.next",
	},
	{
		name: "delivered-twice", ids: "DDP-5.3-05, DDP-3-11", in: "ddp.Receiver.Segment",
		old: "if r.reorder.seen(order) {", new: "if order > 1<<60 && r.reorder.seen(order) {",
	},
	{
		name: "delivered-without-l", ids: "DDP-5.4-02, DDP-4.1-06", in: "ddp.Receiver.pass",
		old: "q.current.passed.add(uint64(h.MO), uint64(n)); if !h.Last {",
		new: "q.current.passed.add(uint64(h.MO), uint64(n)); if !h.Last && n == 0 {",
	},
	{
		name: "length-of-the-last-segment", ids: "DDP-5.4-03", in: "ddp.Receiver.pass",
		old: "Length: uint32(q.current.passed.next)", new: "Length: uint32(n)",
	},
	{
		name: "window-unbounded", ids: "DDP-7.1-06", in: "ddp.reorder.within",
		old: "return order-o.next < uint64(window)", new: "return order-o.next < uint64(window)+1",
		tests: []string{"ddp TestWindowClipped"},
	},
	{
		name: "report-without-the-header", ids: "DDP-7.1-12", in: "ddp.blame", old: "if offender.DDPHeader == nil {",
		new: "if offender.SegmentLength == 0 {",
	},
	{
		name: "report-with-the-payload-length", ids: "DDP-7.1-12", in: "ddp.blame", old: "min(segment, math.MaxUint16)",
		new: "min(segment-h.Len(), math.MaxUint16)",
	},
	{
		name: "gather-from-the-start", ids: "DDP-5.2-04", in: "ddp.gather.place",
		old: "data, off = data[n:], off+uint64(n)", new: "data, off = data[n:], off+uint64(len(piece))",
	},

	// tagged buffers
	{
		name: "invalid-stag-works", ids: "DDP-8.3-02, DDP-7.1-07", in: "ddp.Region.check", old: "case !r.valid:",
		new: "case !r.valid && r.gone:",
	},
	{
		name: "other-domain", ids: "DDP-8.3.1-01, RDMAP-8.1.1-01, SEC-6.1.1-02", in: "ddp.Region.serves",
		old: "return r.pd == who.PD && (", new: "return (",
	},
	{
		name: "other-stream", ids: "DDP-8.3.1-02, RDMAP-8.1.1-02, SEC-6.1.1-02", in: "ddp.Region.serves",
		old: "(r.stream == 0 || r.stream == who.Stream)", new: "who.Stream != 0",
	},
	{
		name: "rights-not-checked", ids: "DDP-7.1-08, SEC-6.3.5-01, RDMAP-7.2-11", in: "ddp.Region.check",
		old: "case !r.access.Has(need):", new: "case !r.access.Has(need) && need == 0:",
	},
	{
		name: "write-without-the-right", ids: "DDP-7.1-08", in: "rdmap.upcalls.CheckTagged",
		old: "Need: ddp.RemoteWrite}", new: "Need: 0}",
	},
	{
		name: "wrap-not-checked", ids: "DDP-7.1-10, RDMAP-7.2-10", in: "ddp.Region.check", old: "case Wraps(to, n):",
		new: "case Wraps(to, 0):",
	},
	{
		name: "bounds-one-too-far", ids: "DDP-7.1-09, RDMAP-8.1.1-03, SEC-6.2.1-01", in: "ddp.Region.check",
		old: "uint64(len(r.buf))): return outOfBounds", new: "uint64(len(r.buf))+1): return outOfBounds",
	},
	{
		name: "bounds-base-ignored", ids: "DDP-7.1-09, DDP-8.3.1-03", in: "ddp.Region.check",
		old: "case to < r.base || !fits(to-r.base,", new: "case !fits(max(to, r.base)-r.base,",
	},
	{
		name: "invalidate-is-no-barrier", ids: "DDP-8.3.1-05, SEC-6.2.2-02", in: "ddp.Region.Invalidate",
		old: "func (r *Region) Invalidate() { r.guard.lock(); r.valid = false; r.guard.unlock()",
		new: "func (r *Region) Invalidate() { r.valid = false",
	},
	{
		name: "barrier-of-the-first-stripe", ids: "DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02",
		in: "ddp.guard.lock, ddp.guard.unlock", old: "range g.more", new: "range min(1, len(g.more))",
	},
	{
		name: "rights-not-revoked", ids: "DDP-8.3.1-04, RDMAP-8.1.1-05", in: "ddp.Region.SetAccess",
		old: "r.access = a & allAccess", new: "r.access |= a & allAccess",
	},
	{
		name: "old-key-works", ids: "DDP-7.1-07, DDP-8.3-02", in: "ddp.Table.Lookup",
		old: "if STag(r.stag.Load()) != s || s == 0 { return nil", new: "if s == 0 { return nil",
		tests: []string{". TestHostile"},
	},
	{
		name: "stags-in-sequence", ids: "RDMAP-8.1.1-08", in: "ddp.Table.freeIndex", old: "index = t.draw() & t.mask",
		new: "index = uint32(t.live+1) & t.mask",
	},
	{
		name: "stag-key-constant", ids: "RDMAP-8.1.1-08", in: "ddp.Table.add", old: "r.index<<8 | t.draw()&0xff",
		new: "r.index<<8 | t.draw()&0",
	},
	{
		name: "sink-key-constant", ids: "RDMAP-8.1.1-08", in: "ddp.Sink.Arm", old: "s.key += s.draw()%255 + 1",
		new: "s.key += 0 * s.draw()",
	},
	{
		name: "sink-of-an-earlier-use", ids: "DDP-7.1-07", in: "ddp.Sink.check",
		old: "case stag == 0 || stag != s.stag:", new: "case stag == 0 || stag>>8 != s.stag>>8:",
	},
	{
		name: "shared-stag-invalidated", ids: "RDMAP-8.1.1-07, RDMAP-5.3-13", in: "ddp.Table.RemoteInvalidate",
		old: "case r.stream == 0:", new: "case r.stream == 0: r.Invalidate(); return nil; case r.gone:",
	},
	{
		name: "stag-of-another-stream-invalidated", ids: "RDMAP-7.2-05, RDMAP-5.3-11", in: "ddp.Table.RemoteInvalidate",
		old: "case r.stream != stream || r.pd != pd:", new: "case r.pd != pd:",
	},
	{
		name: "table-without-a-limit", ids: "DDP-8.3.2-02, SEC-6.4.1-01", in: "ddp.Table.add",
		old: "if t.live >= t.limit {", new: "if t.live >= t.limit+1 {",
	},
}
