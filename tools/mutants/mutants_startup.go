package main

var startupMutants = []mutant{
	// frames
	{
		name: "request-key", ids: "MPA-7.1.1-01", in: "mpa.requestKey", old: `"MPA ID Req Frame"`,
		new: `"MPA ID Req frame"`,
	},
	{name: "reply-key", ids: "MPA-7.1.1-03", in: "mpa.replyKey", old: `"MPA ID Rep Frame"`, new: `"MPA ID Rep frame"`},
	{
		name: "key-not-checked", ids: "MPA-7.1.1-02, MPA-7.1.1-04, MPA-7.1.2-15", in: "mpa.checkKey",
		old: "if b[i] == key[i] {", new: "if b[i] == key[i] || i > 8 {",
	},
	{name: "flag-c", ids: "MPA-7.1.1-05", in: "mpa.flagCRC", old: "flagCRC      = 0x40", new: "flagCRC      = 0x20"},
	{name: "flag-s", ids: "MPA2-6-01", in: "mpa.flagEnhanced", old: "flagEnhanced = 0x10", new: "flagEnhanced = 0x08"},
	{
		name: "reserved-flags-sent", ids: "MPA-7.1.1-13", in: "mpa.Startup.flags", old: "f := s.Reserved",
		new: "f := s.Reserved | 1",
	},
	{
		name: "s-in-revision-1", ids: "MPA2-6-07, MPA-7.1.1-13", in: "mpa.ParseStartup", old: "if rev >= 2 {",
		new: "if rev >= 1 {",
	},
	{
		name: "pd-length-wrong", ids: "MPA-7.1.1-17", in: "mpa.Startup.AppendTo",
		old: "AppendUint16(b, uint16(len(s.PrivateData)))", new: "AppendUint16(b, uint16(len(s.PrivateData)+1))",
	},
	{
		name: "pd-length-not-bounded", ids: "MPA-7.1.1-18, MPA-7.1.2-21, MPA-7.1.2-24", in: "mpa.ParseStartup",
		old: "if n > MaxPrivateData {", new: "if n > 1<<20 {",
	},
	{
		name: "private-data-too-long-sent", ids: "MPA-7.1.1-20", in: "mpa.Startup.AppendTo",
		old: "case len(s.PrivateData) > MaxPrivateData:", new: "case len(s.PrivateData) > 600:",
	},
	{
		name: "block-missing", ids: "MPA2-6-06, MPA2-6-02", in: "mpa.ParseStartup",
		old: "if s.Enhanced && n < protocol.EnhancedLen {", new: "if s.Enhanced && n < 0 {",
	},
	{
		name: "block-handed-up", ids: "MPA2-6-02, MPA2-6-05", in: "mpa.Startup.ULPData",
		old: "return s.PrivateData[protocol.EnhancedLen:]", new: "return s.PrivateData",
	},
	{
		name: "enhanced-a-for-b", ids: "MPA2-9-01, MPA2-9.2-01", in: "protocol.Enhanced.AppendTo",
		old: "first |= 0x4000", new: "second |= 0x4000",
	},
	{
		name: "enhanced-rtr-without-a", ids: "MPA2-9.2-10", in: "protocol.ParseEnhanced",
		old: "IRD: first & NotNegotiated, ORD: second & NotNegotiated}; if e.PeerToPeer {",
		new: "IRD: first & NotNegotiated, ORD: second & NotNegotiated}; {",
	},
	{
		name: "private-data-beyond-the-program", ids: "MPA-7.1.2-22, MPA-7.1.2-23", in: "mpa.ReadRequest",
		old: "o.MaxPrivateData != 0 && n > max(0, o.MaxPrivateData)", new: "o.MaxPrivateData != 0 && n > 512",
	},

	// what is agreed
	{
		name: "crc-default-off", ids: "MPA-4.4-03, MPA-4.4-02", in: "mpa.NewRequest",
		old: "Markers: o.Markers, CRC: !o.NoCRC}", new: "Markers: o.Markers, CRC: false}",
	},
	{
		name: "crc-of-the-request-ignored", ids: "MPA-7.1.1-09, MPA-4.4-04", in: "mpa.Answer",
		old: "CRC: req.CRC || !o.NoCRC, }", new: "CRC: !o.NoCRC, }",
	},
	{
		name: "crc-only-if-both", ids: "MPA-7.1.1-09, MPA-4.4-04", in: "mpa.Conclude",
		old: "CRC: req.CRC || reply.CRC,", new: "CRC: req.CRC && reply.CRC,",
	},
	{
		name: "crc-though-nobody-wants-it", ids: "MPA-7.1.1-08, MPA-4.4-08", in: "mpa.Conclude",
		old: "CRC: req.CRC || reply.CRC,", new: "CRC: true,",
	},
	{
		name: "markers-crossed-responder", ids: "MPA-7.1.1-06, MPA-7.1.1-07", in: "mpa.Answer",
		old: "SendMarkers: req.Markers, RecvMarkers: reply.Markers,",
		new: "SendMarkers: reply.Markers, RecvMarkers: req.Markers,",
	},
	{
		name: "markers-crossed-initiator", ids: "MPA-7.1.1-06, MPA-7.1.1-07", in: "mpa.Conclude",
		old: "SendMarkers: reply.Markers, RecvMarkers: req.Markers,",
		new: "SendMarkers: req.Markers, RecvMarkers: reply.Markers,",
	},
	{
		name: "markers-not-offered", ids: "MPA-4.3-02", in: "mpa.NewRequest", old: "Markers: o.Markers, CRC: !o.NoCRC}",
		new: "Markers: true, CRC: !o.NoCRC}",
	},
	{
		name: "reject-accepts", ids: "MPA-7.1.2-17, MPA-7.1.1-12", in: "mpa.RejectReply", old: "Reject: true}",
		new: "Reject: false}",
	},
	{
		name: "reject-not-seen", ids: "MPA-7.1.2-12, MPA-7.1.1-12", in: "mpa.Conclude",
		old: "if reply.Reject { e := &RejectError{", new: "if reply.Reject && !reply.Reject { e := &RejectError{",
	},
	{
		name: "reject-with-markers-not-seen", ids: "MPA-7.1.2-12, MPA-7.1.1-12", in: "mpa.Conclude",
		old: "if reply.Reject {", new: "if reply.Reject && (req.Markers || !reply.Markers) {",
	},
	{
		name: "reject-of-another-revision-not-taken", ids: "MPA-7.1.2-12", in: "mpa.checkReply",
		old: "if reply.Reject ||", new: "if reply.Reject && reply.Revision == req.Revision ||",
	},
	{
		name: "reject-in-a-request-refused", ids: "MPA-7.1.1-13", in: "mpa.checkRequest",
		old: "if req.Kind != Request {", new: "if req.Kind != Request || req.Reject {",
	},
	{
		name: "revision-3-accepted", ids: "MPA-7.1.1-15", in: "mpa.RDMAC.admits",
		old: "case revision == Revision1 || revision == Revision2:", new: "case revision != Revision0:",
	},
	{
		name: "revision-1-refused", ids: "MPA2-6-04, MPA2-10-02", in: "mpa.RDMAC.admits",
		old: "case revision == Revision1 || revision == Revision2:", new: "case revision == Revision2:",
	},
	{
		name: "revision-of-the-reply", ids: "MPA-7.1.1-15, MPA-7.1.2-11", in: "mpa.checkReply",
		old: "if reply.Revision != req.Revision {", new: "if reply.Revision > req.Revision+100 {",
	},
	{
		name: "revision-of-the-reply-above", ids: "MPA-7.1.1-15, MPA-7.1.2-10", in: "mpa.checkReply",
		old: "if reply.Revision != req.Revision {", new: "if reply.Revision < req.Revision {",
	},
	{
		name: "reply-unenhanced", ids: "MPA2-10-01", in: "mpa.checkReply", old: "if reply.Enhanced != req.Enhanced {",
		new: "if reply.Enhanced && !req.Enhanced {",
	},
	{
		name: "always-revision-2", ids: "MPA2-10-03, MPA2-6-03", in: "mpa.NewRequest", old: "s.Revision = Revision1",
		new: "s.Revision = Revision2",
	},
	{
		name: "enhanced-to-an-unenhanced-end", ids: "MPA2-10-04", in: "mpa.RequestOptions.judge",
		old: "if o.Unenhanced && revision >= Revision2 {", new: "if o.Unenhanced && revision >= 100 {",
	},
	{
		name: "revision-2-to-an-unenhanced-end", ids: "MPA2-10-04", in: "mpa.RequestOptions.judge",
		old: "revision >= Revision2", new: "revision > Revision2",
	},
	{
		name: "a-not-copied", ids: "MPA2-9.2-04", in: "mpa.answerBlock",
		old: "PeerToPeer: asked.PeerToPeer, IRD: protocol.NotNegotiated,",
		new: "PeerToPeer: false, IRD: protocol.NotNegotiated,",
	},
	{
		name: "rtr-not-in-common", ids: "MPA2-9.2-06", in: "mpa.answerBlock", old: "p.RTR = asked.RTR & supported",
		new: "p.RTR = asked.RTR | supported",
	},
	{
		name: "rtr-none-named", ids: "MPA2-9.2-06, MPA2-9.2-03", in: "mpa.answerBlock", old: "block.RTR = supported",
		new: "block.RTR = 0",
	},
	{
		name: "rtr-mismatch-not-seen", ids: "MPA2-9.2-09", in: "mpa.concludeBlock",
		old: "(asked.PeerToPeer && p.RTR == 0)", new: "(asked.PeerToPeer && p.RTR == 0xff)",
	},
	{
		name: "ord-above-the-initiators-ird", ids: "MPA2-9.1-03, MPA2-9.1-01", in: "mpa.answerBlock",
		old: "block.ORD = uint16(p.ORD)", new: "block.ORD = uint16(o.ORD)",
	},
	{
		name: "ord-above-the-responders-ird", ids: "MPA2-9.1-06, MPA2-9.1-01", in: "mpa.concludeBlock",
		old: "p.ORD = min(o.ORD, p.PeerIRD) }", new: "p.ORD = o.ORD }",
	},
	{name: "ird-0-for-an-rtr-read", ids: "MPA2-9.1-04", in: "mpa.answerBlock", old: "p.IRD = 1", new: "p.IRD = 0"},
	{
		name: "ird-too-small-not-seen", ids: "MPA2-9.1-07", in: "mpa.concludeBlock", old: "p.PeerORD > o.IRD {",
		new: "p.PeerORD > o.IRD+1<<20 {",
	},
	{
		name: "not-negotiated-is-a-number", ids: "MPA2-9.1-09, MPA2-9.1-10, MPA2-9.1-11", in: "mpa.answerBlock",
		old: "p.PeerORD != protocol.NotNegotiated && o.IRD", new: "o.IRD",
	},

	// the exchange
	{
		name: "reply-read-too-far", ids: "MPA-7.1-01", in: "mpa.guarded.readReply", old: "next := StartupHeaderLen",
		new: "next := StartupHeaderLen + 4",
	},
	{
		name: "bad-frame-keeps-tcp-open", ids: "MPA-8-05, MPA-7.1.2-05, MPA-7.1.2-11", in: "mpa.guarded.refuse",
		old: "_ = g.nc.Close()", new: "_ = g.nc",
	},
	{
		name: "no-timeout", ids: "MPA-7.1.2-25, MPA-7.1.2-20", in: "mpa.guard",
		old: "if nc.SetDeadline(longAgo) != nil {", new: "if longAgo.IsZero() {",
	},
	{
		name: "octets-before-the-reply", ids: "MPA-7.1.2-09", in: "mpa.guarded.readRequest",
		old: "case err == nil && n < len(b):", new: "case err == nil && n < 0:",
	},
	{
		name: "reject-closes-tcp", ids: "MPA-7.1.2-07", in: "mpa.Incoming.Reject",
		old: "return in.answer(ctx, &reply) }", new: "_ = in.answer(ctx, &reply); return in.nc.Close() }",
	},
	{
		name: "rdmac-not-answered", ids: "MPA-C.2-01", in: "mpa.guarded.disappoint", old: "_ = g.write(frame)",
		new: "_ = frame",
	},

	// the program's side
	{
		name: "no-rtr", ids: "MPA2-9.2-08, MPA2-5-02", in: "iwarp.initiate", old: "c.stream.PostRTR(pickRTR(p.RTR))",
		new: "error(nil)",
	},
	{
		name: "first-send-taken-for-an-rtr", ids: "MPA2-9.2-08, RDMAP-5.3-04", in: "rdmap.Stream.isRTR",
		old: "s.cfg.RTR.Has(protocol.RTRSend)", new: "s.cfg.RTR != 0",
	},
	{
		name: "no-second-try", ids: "MPA2-10-05", in: "iwarp.Config.mayFallBack",
		old: "code == protocol.MPAConnectionLost && c.MPA.Revision == 2",
		new: "code == protocol.MPAConnectionLost && c.MPA.Revision == 3",
	},
	{
		name: "startup-error-taken-for-siws", ids: "MPA2-9.1-07, MPA2-9.2-09", in: "rdmap.Stream.deliverTerminate",
		old: "term.err(s.cfg.Initiator || s.opened)", new: "term.err(true)",
	},
	{
		name: "mirrored-terminate-as-it-stands", ids: "RDMAP-4.8-10", in: "rdmap.Terminate.meaning",
		old: "(t.Mirrored || late || !t.Code.Defined())", new: "(late || !t.Code.Defined())",
	},
	{
		name: "declined-reply-goes-on", ids: "MPA-7.1.2-12, MPA-7.1.2-16", in: "mpa.Options.verify",
		old: "return &DeclinedError{err}", new: "return nil",
	},
	{
		name: "declined-reply-closes-tcp", ids: "MPA-7.1.2-12", in: "iwarp.leavesOpen",
		old: "|| errors.As(err, new(*DeclinedError))", new: "",
	},
	{
		name: "peer-to-peer-required-closes", ids: "MPA-7.1.2-17", in: "iwarp.ConnRequest.Accept",
		old: "_ = r.in.Reject(ctx, o, nil)", new: "_ = r.in.Close()",
	},
	{
		name: "rtr-read-raises-ird-of-initiator", ids: "RDMAP-6.1-05", in: "rdmap.NewStream",
		old: "if cfg.Initiator { ord = max(ord, 1)", new: "if cfg.Initiator { ord, ird = max(ord, 1), max(ird, 1)",
	},
	{
		name: "no-terminate-for-a-bad-reply", ids: "MPA2-9.1-07, MPA2-9.2-09, MPA2-9.3-01", in: "iwarp.initiate",
		old: "c.stream.Fail(perr, true)", new: "c.stream.Fail(perr, false)",
	},
	{
		name: "crc-off-without-a-policy", ids: "MPA-4.4-02, MPA-4.4-05", in: "iwarp.Config.mayOmitCRC",
		old: "if c.MPA.RequireCRC || !p.names(addrOf(remote)) { return false",
		new: "if c.MPA.RequireCRC || !p.names(addrOf(remote)) { return p == nil",
	},
}
