package main

// kitMutants are for -conform alone. Each breaks a rule so narrowly that a good
// connection still works, for cases of the kit that no other mutant makes fail.
var kitMutants = []mutant{
	// startup
	{
		name: "kit-bad-startup-answered",
		ids:  "MPA-7.1.2-05, MPA-7.1.2-11, MPA-7.1.2-15, MPA-7.1.1-15, MPA-7.1.1-18, MPA-7.1.2-25, MPA2-6-06",
		in:   "mpa.guarded.refuse", old: "g.release(); _ = g.nc.Close()",
		new: "g.release(); _, _ = g.nc.Write(append([]byte(replyKey), flagReject, 1, 0, 0)); _ = g.nc.Close()",
	},
	{
		name: "kit-fin-not-seen-in-startup", ids: "MPA-7.1.2-05, MPA-7.1.2-11, MPA-8-01, MPA-7.1.1-18",
		in: "mpa.guarded.read", old: "if errors.Is(err, io.EOF) && len(b) > 0 {",
		new: "if errors.Is(err, io.EOF) { time.Sleep(8 * time.Second) }; if errors.Is(err, io.EOF) && len(b) > 0 {",
	},
	{
		name: "kit-reset-kills-in-startup", ids: "MPA-8-01", in: "mpa.guarded.read",
		old: "if err != nil { return b, err }",
		new: "if err != nil { if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isTimeout(err) " +
			"{ panic(err) }; return b, err }",
	},
	{
		name: "kit-reset-kills", ids: "MPA-8-01", in: "mpa.Conn.fill", old: `return connError("reading FPDUs", err)`,
		new: "panic(err)",
	},
	{
		name: "kit-request-in-pieces", ids: "MPA-7.1.2-21, MPA-7.1.1-17", in: "mpa.guarded.readRequest",
		old: "case !errors.Is(err, io.ErrUnexpectedEOF):",
		new: "case !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > 0:",
	},
	{
		name: "kit-reply-in-pieces", ids: "MPA-7.1.2-21, MPA-7.1.1-17", in: "mpa.guarded.readReply",
		old: "if !errors.Is(err, io.ErrUnexpectedEOF) {",
		new: "if !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > 0 && len(b) != StartupHeaderLen {",
	},
	{
		name: "kit-private-data-not-awaited", ids: "MPA-7.1.1-17, MPA-7.1.2-21", in: "mpa.ParseStartup",
		old: "if len(b) < StartupHeaderLen+n { return Startup{}, 0, io.ErrUnexpectedEOF }",
		new: "n = min(n, len(b)-StartupHeaderLen)",
	},
	{
		name: "kit-reserved-flags-checked", ids: "MPA-7.1.1-13", in: "mpa.ParseStartup", old: "if n > MaxPrivateData {",
		new: "if n > MaxPrivateData || s.Reserved != 0 {",
	},
	{
		name: "kit-reject-in-a-request-checked", ids: "MPA-7.1.1-12, MPA-7.1.1-13", in: "mpa.ParseStartup",
		old: "if n > MaxPrivateData {", new: "if n > MaxPrivateData || want == Request && s.Reject {",
	},
	{
		name: "kit-reply-private-data", ids: "MPA-7.1.1-17, MPA-7.1.1-19, MPA-7.1.1-20", in: "mpa.Conclude",
		old: "PrivateData: reply.ULPData(), }; if reply.Revision",
		new: "PrivateData: append(reply.ULPData(), 0), }; if reply.Revision",
	},
	{
		name: "kit-rtr-without-a", ids: "MPA2-9.2-10", in: "protocol.ParseEnhanced",
		old: "PeerToPeer: first&0x8000 != 0,", new: "PeerToPeer: first&0xc000 != 0 || second&0xc000 != 0,",
	},
	{
		name: "kit-any-depth-but-16-refused", ids: "MPA2-9.1-06, MPA2-9.1-11, MPA2-9.1-13", in: "mpa.checkReply",
		old: "if reply.Reject || reply.Revision == Revision0 {",
		new: `if b, ok := reply.Block(); ok && (b.IRD != 16 || b.ORD != 16) { return startupError("", "") }
			if reply.Reject || reply.Revision == Revision0 {`,
	},
	{
		name: "kit-reply-without-markers-refused", ids: "MPA-7.1.1-06, MPA-4.3-02", in: "mpa.checkReply",
		old: "if reply.Reject || reply.Revision == Revision0 {",
		new: `if req.Markers && !reply.Markers { return startupError("", "") }
			if reply.Reject || reply.Revision == Revision0 {`,
	},

	// FPDUs
	{
		name: "kit-fpdu-in-pieces", ids: "MPA-5.1-05, MPA-6-03, MPA-5.2-01", in: "mpa.Conn.deliver",
		old: "if n == 0 { r.need,",
		new: `if n == 0 && r.wr > r.rd && r.wr-r.rd < 48 {
				r.swallow = true; return connError("a part of an FPDU", io.ErrUnexpectedEOF)
			}
			if n == 0 { r.need,`,
	},
	{
		name: "kit-64-fpdus-a-read", ids: "MPA-5.1-04, MPA-5.1-05, MPA-3-01", in: "mpa.Conn.deliver", old: "t.fpdus++",
		new: "if t.fpdus++; t.fpdus > 64 { r.rd = r.wr }",
	},
	{
		name: "kit-pad-checked", ids: "MPA-4.1-04", in: "mpa.Deframer.check",
		old: "if l.markers == 0 || d.IgnoreMarkers {",
		new: `pad := padLen(int(binary.BigEndian.Uint16(b)))
			if end := len(b) - crcLen; l.markers == 0 && string(b[end-pad:end]) != "\x00\x00\x00"[:pad] {
				return d.fail(protocol.MPACRC, "", "")
			}
			if l.markers == 0 || d.IgnoreMarkers {`,
	},
	{
		name: "kit-crc-of-any-value-checked", ids: "MPA-4.1-06", in: "mpa.Deframer.check", old: "if d.CRC {",
		new: "if d.CRC || binary.LittleEndian.Uint32(b[len(b)-crcLen:]) != 0 {",
	},
	{
		name: "kit-marker-error-as-crc-error", ids: "MPA-8-03, MPA-8-04", in: "mpa.Deframer.check",
		old: `return d.fail(protocol.MPAMarker, "RFC 5044 section 4.3",`,
		new: `return d.fail(protocol.MPACRC, "RFC 5044 section 4.3",`,
	},
	{
		name: "kit-idle-ends", ids: "MPA-7.1.2-26, DDP-6.2-01", in: "iwarp.newPoller",
		old: "if !ok || !m.CanTryReceive()",
		new: "_ = c.under.nc.SetReadDeadline(time.Now().Add(time.Second / 5)); if !ok || !m.CanTryReceive()",
	},
	{
		name: "kit-fin-not-seen", ids: "MPA-7.2-01, DDP-6.2.1-05, DDP-6.2.1-01", in: "mpa.Conn.fill",
		old: "if c.in.len() > 0 {", new: "select {}; if c.in.len() > 0 {",
	},

	// messages
	{
		name: "kit-last-octet-not-placed", ids: "DDP-5.3-01, MPA-4.1-02, RDMAP-5.3-04", in: "ddp.gather.place",
		old: "if off < g.start {", new: "if n := len(data); n > 0 && n != 18 { data = data[:n-1] }; if off < g.start {",
	},
	{
		name: "kit-empty-send-refused", ids: "RDMAP-5.3-04, DDP-5.2-07", in: "ddp.Receiver.placeUntagged",
		old: "case off > m.limit:", new: "case off > m.limit || off == 0 && n == 0 && h.Last && h.QN == 0:",
	},
	{
		name: "kit-empty-write-of-an-stag", ids: "DDP-5.2-08, RDMAP-5.1-04", in: "ddp.Receiver.placeTagged",
		old: "case len(payload) == 0: return nil; case target.Sink",
		new: "case len(payload) == 0 && h.STag == 0: return nil; case target.Sink",
	},
	{
		name: "kit-empty-write-once", ids: "DDP-5.2-08, RDMAP-5.1-04", in: "rdmap.upcalls.CheckTagged",
		old: "if n == 0 { return ddp.Target{}, nil }",
		new: `if n == 0 && s.opened { return ddp.Target{}, strayResponse("") }; if n == 0 { return ddp.Target{}, nil }`,
	},
	{
		name: "kit-solicited-not-told", ids: "RDMAP-5.3-08", in: "iwarp.toCQs.received",
		old: "Solicited: d.Opcode.Solicited(),", new: "Solicited: false,",
	},
	{
		name: "kit-immediate-changed", ids: "EXT-6.2-01, EXT-6.3-01", in: "iwarp.toCQs.received",
		old: "Immediate: d.Immediate, Invalidated", new: "Immediate: d.Immediate + 1, Invalidated",
	},
	{
		name: "kit-immediate-sent-changed", ids: "EXT-6.2-01, EXT-6.3-01", in: "rdmap.Stream.requestMessage",
		old: "e.scratch(ImmediateUint64(r.Immediate)", new: "e.scratch(ImmediateUint64(r.Immediate + 1)",
	},
	{
		name: "kit-invalidate-field-of-a-send", ids: "RDMAP-4.1-02, RDMAP-5.3-10", in: "rdmap.Stream.deliverSend",
		old: "if op.Invalidates() {", new: "if op.Invalidates() || m.Header.ULP32 != 0 {",
	},
	{
		name: "kit-every-send-solicited", ids: "RDMAP-4.1-05", in: "rdmap.Stream.requestMessage",
		old: "op := OpcodeSend; if r.Solicited {", new: "op := OpcodeSend; if r.Solicited || r.Op == OpSend {",
	},
	{
		name: "kit-send-shortened", ids: "DDP-5.2-01, DDP-5.2-07, MPA-3-01", in: "rdmap.Stream.requestMessage",
		old: "op := OpcodeSend",
		new: "if len(r.SG) == 1 && len(r.SG[0]) > 0 && r.SG[0][0] == 's' { return t.untagged(OpcodeSend, 0), " +
			"[][]byte{r.SG[0][:len(r.SG[0])-1]} }; op := OpcodeSend",
	},
	{
		name: "kit-write-shifted", ids: "DDP-5.2-06, RDMAP-5.1-01, RDMAP-5.1-06", in: "rdmap.Stream.requestMessage",
		old: "return t.tagged(OpcodeWrite, r.Remote.STag, r.Remote.TO), r.SG",
		new: "return t.tagged(OpcodeWrite, r.Remote.STag, r.Remote.TO+1), r.SG",
	},
	{
		name: "kit-read-of-one-more", ids: "RDMAP-4.4-01, RDMAP-5.2.1-01, RDMAP-5.2.1-06",
		in: "rdmap.Stream.requestMessage", old: "Size: e.total, SrcSTag", new: "Size: e.total + 1, SrcSTag",
	},
	{
		name: "kit-second-empty-read-lost", ids: "RDMAP-5.2.1-13, RDMAP-5.2.1-10",
		in: "rdmap.Stream.deliverReadRequest", old: "slot.read, slot.header, slot.isAtomic = r, m.Header, false",
		new: "slot.read, slot.header, slot.isAtomic = r, m.Header, false; if r.Size == 0 && m.Header.MSN == 2 { " +
			"return nil }",
	},
}
