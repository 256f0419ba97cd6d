package main

var rdmapMutants = []mutant{
	// opcodes and control field
	{
		name: "write-untagged", ids: "RDMAP-5.1-01, RDMAP-4.1-04", in: "rdmap.opcodes",
		old: `"RDMA Write", tagged: true`, new: `"RDMA Write", tagged: false`,
	},
	{
		name: "read-request-queue", ids: "RDMAP-5.2.1-03, RDMAP-4.1-08", in: "rdmap.opcodes",
		old: `"RDMA Read Request", qn: QNReadRequest`, new: `"RDMA Read Request", qn: QNSend`,
	},
	{
		name: "terminate-queue", ids: "RDMAP-5.4-01, RDMAP-3.1-02", in: "rdmap.opcodes",
		old: `"Terminate", qn: QNTerminate`, new: `"Terminate", qn: QNSend`,
	},
	{
		name: "atomic-response-queue", ids: "EXT-5.2.2-02, EXT-4.1-03", in: "rdmap.opcodes",
		old: `"Atomic Response", qn: QNAtomicResponse`, new: `"Atomic Response", qn: QNReadRequest`,
	},
	{
		name: "opcodes-swapped", ids: "RDMAP-4.1-05", in: "rdmap.OpcodeSendInvalidate",
		old: "OpcodeSendInvalidate          Opcode = 4", new: "OpcodeSendInvalidate          Opcode = 13",
	},
	{
		name: "rv-sent", ids: "RDMAP-4.1-06", in: "rdmap.sender.control", old: "t.version<<6 | uint8(op)",
		new: "uint8(op)",
	},
	{
		name: "rsv-sent", ids: "RDMAP-4.1-07", in: "rdmap.sender.control", old: "t.version<<6 | uint8(op)",
		new: "t.version<<6 | 0x10 | uint8(op)",
	},
	{
		name: "rsv-checked", ids: "RDMAP-4.1-07", in: "rdmap.Control.Check", old: "case c.Version() != version:",
		new: "case c.Version() != version || c.Reserved() != 0:",
	},
	{
		name: "rv-not-checked", ids: "RDMAP-7.2-03, EXT-8.2-03", in: "rdmap.Control.Check",
		old: "case c.Version() != version:", new: "case c.Version() > 3:",
	},
	{
		name: "opcode-not-checked", ids: "RDMAP-7.2-02, EXT-8.2-02", in: "rdmap.Control.Check",
		old: "case !op.Known():", new: "case op > 15:",
	},
	{
		name: "opcode-queue-not-checked", ids: "RDMAP-4.1-08", in: "rdmap.Control.Check",
		old: "case !tagged && op.QN() != qn:", new: "case !tagged && op.QN() > 3:",
	},
	{
		name: "opcode-tag-not-checked", ids: "RDMAP-4.1-04", in: "rdmap.Control.Check",
		old: "case op.Tagged() && !tagged:", new: "case op > 15 && !tagged:",
	},
	{
		name: "invalidate-stag-not-sent", ids: "RDMAP-4.1-02, RDMAP-5.3-10", in: "rdmap.Stream.requestMessage",
		old: "return t.untagged(op, uint32(r.Invalidate)), r.SG", new: "return t.untagged(op, 0), nil",
	},
	{
		name: "invalidate-field-not-zero", ids: "RDMAP-4.1-03", in: "rdmap.Stream.requestMessage",
		old: "return t.untagged(op, 0), r.SG", new: "return t.untagged(op, 5), r.SG",
	},
	{
		name: "solicited-lost", ids: "RDMAP-5.3-09", in: "rdmap.Stream.requestMessage", old: "op = OpcodeSendSolicited",
		new: "op = OpcodeSend",
	},

	// headers
	{
		name: "read-size-place", ids: "RDMAP-4.4-01", in: "rdmap.ParseReadRequest",
		old: "binary.BigEndian.Uint32(b[12:]), SrcSTag", new: "binary.BigEndian.Uint32(b[8:]), SrcSTag",
	},
	{
		name: "read-sink-to-lost", ids: "RDMAP-4.4-02", in: "rdmap.Stream.startResponse",
		old: "t.tagged(OpcodeReadResponse, r.SinkSTag, r.SinkTO)", new: "t.tagged(OpcodeReadResponse, r.SinkSTag, 0)",
	},
	{
		name: "read-midway-not-advanced", ids: "RDMAP-4.8-08", in: "rdmap.ReadRequest.Advance",
		old: "r.SrcTO += uint64(n)", new: "r.SrcTO += 0",
	},
	{
		name: "read-request-too-long", ids: "RDMAP-4.2-01", in: "rdmap.Stream.deliverReadRequest",
		old: "if m.Length != ReadRequestLen {", new: "if m.Length == 0 {",
	},
	{name: "terminate-bit-d", ids: "RDMAP-4.8-03", in: "rdmap.termD", old: "termD = 0x4000", new: "termD = 0x1000"},
	{
		name: "terminate-bit-m", ids: "RDMAP-4.8-05", in: "rdmap.Terminate.AppendTo", old: "word |= termM",
		new: "word |= 0",
	},
	{
		name: "terminate-reserved-sent", ids: "RDMAP-4.8-04", in: "rdmap.Terminate.AppendTo",
		old: "word := uint32(t.Code) << 16", new: "word := uint32(t.Code)<<16 | 1",
	},
	{
		name: "terminate-echo-for-catastrophe", ids: "RDMAP-4.8-09, RDMAP-4.8-06", in: "rdmap.echoes",
		old: "return c.Type() != 0", new: "return true",
	},
	{
		name: "terminate-echoes-mpa", ids: "RDMAP-4.8-09", in: "rdmap.echoes",
		old: "return c.Type() != 0 }; return false", new: "return c.Type() != 0 }; return true",
	},
	{
		name: "terminate-r-for-all", ids: "RDMAP-4.8-09, EXT-8.1-01", in: "rdmap.FromError",
		old: "if !protection || len(o.RDMAPHeader) != ReadRequestLen || Control(o.DDPHeader[1]).Opcode() != " +
			"OpcodeReadRequest {",
		new: "if protection && len(o.RDMAPHeader) != ReadRequestLen {",
	},
	{
		name: "fetchadd-carry", ids: "EXT-5.1.1-01", in: "rdmap.FetchAdd",
		old: "return (old&^mask + add&^mask) ^ (old^add)&mask", new: "return old + add",
	},
	{
		name: "cmpswap-compare-mask", ids: "EXT-5.1.2-01", in: "rdmap.CmpSwap",
		old: "if (old^compare)&compareMask != 0 {", new: "if old != compare {",
	},
	{
		name: "cmpswap-swap-mask", ids: "EXT-5.1.2-01", in: "rdmap.CmpSwap",
		old: "return old&^swapMask | swap&swapMask", new: "return swap",
	},
	{
		name: "atomic-reserved-checked", ids: "EXT-5.2.1-02", in: "rdmap.ParseAtomicRequest",
		old: "AtomicOp(b[3] & 0xf)", new: "AtomicOp(b[3])",
	},
	{
		name: "atomic-compare-mask-unused", ids: "EXT-5.2.1-03", in: "rdmap.NewFetchAdd",
		old: "CompareMask: ^uint64(0)}", new: "CompareMask: 0}",
	},
	{
		name: "atomic-alignment-of-to", ids: "EXT-5.2.1-05, EXT-8.2-04, EXT-5.1.1-02", in: "ddp.Region.atomic",
		old: "if uintptr(word)%size != 0 {", new: "if to%size != 0 || uintptr(word)%size != 0 {",
	},
	{
		name: "atomic-alignment-of-memory", ids: "EXT-5.2.1-05, EXT-8.2-04", in: "ddp.Region.atomic",
		old: "if uintptr(word)%size != 0 {", new: "if to%size != 0 {",
	},
	{
		name: "atomic-without-the-right", ids: "EXT-8.2-01", in: "ddp.Region.atomic", old: "to, size, RemoteAtomic)",
		new: "to, size, 0)", tests: []string{". TestHostile"},
	},
	{
		name: "atomic-not-atomic", ids: "EXT-5-01, EXT-5.3-01", in: "rdmap.Stream.perform",
		old: "if atomic.CompareAndSwapUint64(word, original, changed) {",
		new: "if atomic.StoreUint64(word, changed); word != nil {",
	},

	// requests, responses, order
	{
		name: "ord-exceeded", ids: "RDMAP-6.1-04, RDMAP-6.1-03", in: "rdmap.outstandingQueue.full",
		old: "return q.tail-q.head >= uint64(q.size) }", new: "return q.tail-q.head >= uint64(q.size+1) }",
	},
	{
		name: "ird-exceeded", ids: "RDMAP-6.1-05, RDMAP-6.1-02", in: "rdmap.inboundSource.Take",
		old: "if i-q.head >= uint64(q.size) {", new: "if i-q.head >= uint64(q.size)+1 {",
	},
	{
		name: "empty-read-validated", ids: "RDMAP-5.2.1-12, RDMAP-5.2.1-10", in: "rdmap.Stream.startResponse",
		old: "if r.Size > 0 {", new: "if r.Size >= 0 {",
	},
	{
		name: "read-source-not-checked-again", ids: "RDMAP-8.1.1-06, SEC-6.2.2-02, RDMAP-4.8-08",
		in: "rdmap.Stream.responseSegment", old: "if perr != nil { s.Fail(s.midway",
		new: "if perr != nil && region != nil { s.Fail(s.midway",
	},
	{
		name: "read-midway-as-asked", ids: "RDMAP-4.8-08", in: "rdmap.Stream.responseSegment",
		old: "s.Fail(s.midway(perr, left), true)",
		new: "asked := t.request.read; s.Fail(readOffender(perr, &t.request.header, &asked), true)",
	},
	{
		name: "read-source-not-checked", ids: "RDMAP-7.2-06, RDMAP-7.2-08", in: "rdmap.Stream.checkSource",
		old: "return s.cfg.Table.CheckFetch(", new: "return nil; return s.cfg.Table.CheckFetch(",
	},
	{
		name: "write-delivered", ids: "RDMAP-5.1-02, RDMAP-3.2-02", in: "rdmap.upcalls.Deliver",
		old: "s.writes.Add(1); return nil",
		new: "s.writes.Add(1); s.mu.Lock(); defer s.mu.Unlock(); return s.deliverSend(op, m)",
	},
	{
		name: "not-invalidated", ids: "RDMAP-5.3-12", in: "rdmap.Stream.deliverSend", old: "if op.Invalidates() {",
		new: "if op.Invalidates() && m.Length == 1<<31 {",
	},
	{
		name: "invalidated-stag-not-told", ids: "RDMAP-3.2-01", in: "rdmap.Stream.deliverSend",
		old: "s.delivery.Invalidated = stag", new: "_ = stag",
	},
	{
		name: "immediate-of-any-length", ids: "EXT-6.3-07", in: "rdmap.Stream.deliverImmediate",
		old: "if m.Length != ImmediateDataLen {", new: "if m.Length > ImmediateDataLen {",
	},
	{
		name: "atomic-operation-1", ids: "EXT-5.2.1-10, EXT-5.2.1-04", in: "rdmap.Stream.deliverAtomicRequest",
		old: "if a.Op != AtomicFetchAdd && a.Op != AtomicCmpSwap {", new: "if a.Op > 2 {",
	},
	{
		name: "atomic-response-identifier", ids: "EXT-5.2.2-06", in: "rdmap.Stream.deliverAtomicResponse",
		old: "if err != nil || r.ID != o.id {", new: "if err != nil {",
	},
	{
		name: "response-too-short", ids: "RDMAP-5.2.2-05", in: "rdmap.Stream.deliverReadResponse",
		old: "missing != uint64(o.size)", new: "missing > uint64(o.size)",
	},
	{
		name: "response-out-of-order", ids: "RDMAP-5.5-13, RDMAP-5.2.2-05", in: "rdmap.Stream.responseTarget",
		old: "if o == nil || (!first && !s.cfg.Unordered) {", new: "if o == nil || (!first && s.cfg.Unordered) {",
	},
	{
		name: "response-octets-again", ids: "RDMAP-5.2.2-05", in: "ddp.Sink.place", old: "if !s.came.admits(to, n) {",
		new: "if false {",
	},
	{
		name: "responses-reversed", ids: "RDMAP-5.2.2-04, RDMAP-5.2.1-04, EXT-5.4-06", in: "rdmap.Stream.startResponse",
		old: "t.request, t.released = *q.At(q.head), false", new: "t.request, t.released = *q.At(q.ready - 1), false",
	},
	{
		name: "answers-forgotten-behind-a-batch", ids: "RDMAP-5.2.1-09", in: "rdmap.Stream.progress",
		old: "s.requestDue() || s.inbound.head < s.inbound.ready", new: "s.requestDue()",
	},
	{
		name: "read-complete-when-sent", ids: "RDMAP-5.5-12, EXT-5.4-05", in: "rdmap.Stream.batchTaken",
		old: "e.state = entryWaiting", new: "e.state = entryDone",
	},
	{
		name: "complete-before-ddp", ids: "RDMAP-5.5-09", in: "rdmap.Stream.Transmit",
		old: "s.batchTaken(); p := s.progress", new: "p := s.progress",
	},
	{
		name: "complete-out-of-order", ids: "RDMAP-5.5-10", in: "rdmap.Stream.complete",
		old: "if e.state != entryDone { return }; s.completion",
		new: "if e.state != entryDone && e.req.Op != OpRead { return }; s.completion",
	},
	{
		name: "fence-ignored", ids: "RDMAP-5.5-07", in: "rdmap.Stream.requestDue",
		old: "return !e.req.Fence || s.outstanding.empty()", new: "return !e.req.Fence || !s.outstanding.full()",
	},

	// the end
	{
		name: "no-terminate", ids: "RDMAP-6.2.1-01, RDMAP-7.1-03", in: "rdmap.Stream.fail", old: "if terminate {",
		new: "if terminate && err.Offender == nil {",
	},
	{
		name: "terminate-answered", ids: "RDMAP-5.4-07, RDMAP-5.4-05", in: "rdmap.Stream.receiveFailed",
		old: "s.fail(err, !err.Remote && !fromTerminate(err))", new: "s.fail(err, true)",
	},
	{
		name: "second-error-reported", ids: "RDMAP-7.1-05", in: "rdmap.Stream.fail",
		old: "if s.err != nil || phase(s.phase.Load()) == phaseEnded {",
		new: "if phase(s.phase.Load()) == phaseEnded {",
	},
	{
		name: "sending-on-after-an-error", ids: "RDMAP-5.4-07, RDMAP-7.1-03", in: "rdmap.Stream.fill",
		old: "if t.kind != sendingTerminate && s.Failed() && !s.finishes() {", new: "if t.kind == sendingTerminate+1 {",
	},
	{
		name: "segments-after-the-end", ids: "DDP-6.2.1-03", in: "rdmap.Stream.Receive", old: "if s.peerClosed {",
		new: "if s.peerClosed && seg == nil {",
	},
	{
		name: "post-after-close", ids: "DDP-6.2.1-02", in: "rdmap.Stream.post",
		old: "case s.refuses(): return ErrClosed; case s.peerClosed", new: "case s.peerClosed",
	},
	{
		name: "outstanding-not-flushed", ids: "RDMAP-6.2.1-02, DDP-6.2.2-02, RDMAP-5.4-06", in: "rdmap.Stream.settle",
		old: "e.err = s.flushErr", new: "e.err = nil",
	},
	{
		name: "fin-within-a-message", ids: "DDP-2.3-02, DDP-6.2.2-01", in: "rdmap.Stream.PeerClosed",
		old: "case s.recv.InProgress():", new: "case s.recv.InProgress() && s.cfg.Unordered:",
	},
	{
		name: "fin-within-a-write", ids: "DDP-2.3-02, DDP-6.2.2-01", in: "ddp.Receiver.InProgress", old: "r.within ||",
		new: "",
	},
	{
		name: "fin-within-a-send", ids: "DDP-2.3-02, DDP-6.2.2-01", in: "ddp.Receiver.InProgress",
		old: "r.queues.inProgress() ||", new: "",
	},
	{
		name: "success-behind-a-flush", ids: "RDMAP-6.2.1-02", in: "rdmap.Stream.settle",
		old: "case cut || e.state != entryDone:", new: "case cut && false || e.state != entryDone:",
	},
	{
		name: "culprit-flushed", ids: "RDMAP-6.2.1-02", in: "rdmap.Stream.fail", old: "s.culprit = s.findCulprit(err)",
		new: "s.culprit = noEntry",
	},
	{
		name: "terminate-within-a-send", ids: "DDP-5.2-03", in: "rdmap.Stream.finishes",
		old: "return s.terminate != nil && !s.peerClosed", new: "return false",
	},
}
