package main

// kitMutants are for -conform alone. Each breaks a rule so narrowly that a good
// connection still works, for cases of the kit that no other mutant makes fail.
var kitMutants = []mutant{
	// startup
	{name: "kit-bad-startup-answered", ids: "MPA-7.1.2-05, MPA-7.1.2-11, MPA-7.1.2-15, MPA-7.1.1-15, MPA-7.1.1-18, MPA-7.1.2-25, MPA2-6-06", file: "mpa/exchange.go", old: "\tg.release()\n\t_ = g.nc.Close()\n", new: "\tg.release()\n\t_, _ = g.nc.Write(append([]byte(replyKey), flagReject, 1, 0, 0))\n\t_ = g.nc.Close()\n"},
	{name: "kit-fin-not-seen-in-startup", ids: "MPA-7.1.2-05, MPA-7.1.2-11, MPA-8-01, MPA-7.1.1-18", file: "mpa/exchange.go", old: "\t\tif errors.Is(err, io.EOF) && len(b) > 0 {", new: "\t\tif errors.Is(err, io.EOF) {\n\t\t\ttime.Sleep(8 * time.Second)\n\t\t}\n\t\tif errors.Is(err, io.EOF) && len(b) > 0 {"},
	{name: "kit-reset-kills-in-startup", ids: "MPA-8-01", file: "mpa/exchange.go", old: "\t\tif err != nil {\n\t\t\treturn b, err\n\t\t}\n", new: "\t\tif err != nil {\n\t\t\tif !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isTimeout(err) {\n\t\t\t\tpanic(err)\n\t\t\t}\n\t\t\treturn b, err\n\t\t}\n"},
	{name: "kit-reset-kills", ids: "MPA-8-01", file: "mpa/conn_recv.go", old: "return connError(\"reading FPDUs\", err)", new: "panic(err)"},
	{name: "kit-request-in-pieces", ids: "MPA-7.1.2-21, MPA-7.1.1-17", file: "mpa/exchange.go", old: "case !errors.Is(err, io.ErrUnexpectedEOF):", new: "case !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > 0:"},
	{name: "kit-reply-in-pieces", ids: "MPA-7.1.2-21, MPA-7.1.1-17", file: "mpa/exchange.go", old: "if !errors.Is(err, io.ErrUnexpectedEOF) {\n", new: "if !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > 0 && len(b) != StartupHeaderLen {\n"},
	{name: "kit-private-data-not-awaited", ids: "MPA-7.1.1-17, MPA-7.1.2-21", file: "mpa/startup.go", old: "\tif len(b) < StartupHeaderLen+n {\n\t\treturn Startup{}, 0, io.ErrUnexpectedEOF\n\t}\n", new: "\tn = min(n, len(b)-StartupHeaderLen)\n"},
	{name: "kit-reserved-flags-checked", ids: "MPA-7.1.1-13", file: "mpa/startup.go", old: "\tif n > MaxPrivateData {", new: "\tif n > MaxPrivateData || s.Reserved != 0 {"},
	{name: "kit-reject-in-a-request-checked", ids: "MPA-7.1.1-12, MPA-7.1.1-13", file: "mpa/startup.go", old: "\tif n > MaxPrivateData {", new: "\tif n > MaxPrivateData || want == Request && s.Reject {"},
	{name: "kit-reply-private-data", ids: "MPA-7.1.1-17, MPA-7.1.1-19, MPA-7.1.1-20", file: "mpa/negotiate.go", old: "\t\tPrivateData: reply.ULPData(),\n\t}\n\tif reply.Revision", new: "\t\tPrivateData: append(reply.ULPData(), 0),\n\t}\n\tif reply.Revision"},
	{name: "kit-rtr-without-a", ids: "MPA2-9.2-10", file: "protocol/enhanced.go", old: "PeerToPeer: first&0x8000 != 0,", new: "PeerToPeer: first&0xc000 != 0 || second&0xc000 != 0,"},
	{name: "kit-any-depth-but-16-refused", ids: "MPA2-9.1-06, MPA2-9.1-11, MPA2-9.1-13", file: "mpa/negotiate.go", old: "\tif reply.Reject || reply.Revision == Revision0 {", new: "\tif b, ok := reply.Block(); ok && (b.IRD != 16 || b.ORD != 16) {\n\t\treturn startupError(\"\", \"\")\n\t}\n\tif reply.Reject || reply.Revision == Revision0 {"},
	{name: "kit-reply-without-markers-refused", ids: "MPA-7.1.1-06, MPA-4.3-02", file: "mpa/negotiate.go", old: "\tif reply.Reject || reply.Revision == Revision0 {", new: "\tif req.Markers && !reply.Markers {\n\t\treturn startupError(\"\", \"\")\n\t}\n\tif reply.Reject || reply.Revision == Revision0 {"},

	// FPDUs
	{name: "kit-fpdu-in-pieces", ids: "MPA-5.1-05, MPA-6-03, MPA-5.2-01", file: "mpa/conn_recv.go", old: "\t\tif n == 0 {\n\t\t\tr.need,", new: "\t\tif n == 0 && r.wr > r.rd && r.wr-r.rd < 48 {\n\t\t\tr.swallow = true\n\t\t\treturn connError(\"a part of an FPDU\", io.ErrUnexpectedEOF)\n\t\t}\n\t\tif n == 0 {\n\t\t\tr.need,"},
	{name: "kit-64-fpdus-a-read", ids: "MPA-5.1-04, MPA-5.1-05, MPA-3-01", file: "mpa/conn_recv.go", old: "\t\tt.fpdus++\n", new: "\t\tif t.fpdus++; t.fpdus > 64 {\n\t\t\tr.rd = r.wr\n\t\t}\n"},
	{name: "kit-pad-checked", ids: "MPA-4.1-04", file: "mpa/deframer.go", old: "\tif l.markers == 0 || d.IgnoreMarkers {", new: "\tif end := len(b) - crcLen; l.markers == 0 && string(b[end-padLen(int(binary.BigEndian.Uint16(b))):end]) != \"\\x00\\x00\\x00\"[:padLen(int(binary.BigEndian.Uint16(b)))] {\n\t\treturn d.fail(protocol.MPACRC, \"\", \"\")\n\t}\n\tif l.markers == 0 || d.IgnoreMarkers {"},
	{name: "kit-crc-of-any-value-checked", ids: "MPA-4.1-06", file: "mpa/deframer.go", old: "\tif d.CRC {\n", new: "\tif d.CRC || binary.LittleEndian.Uint32(b[len(b)-crcLen:]) != 0 {\n"},
	{name: "kit-marker-error-as-crc-error", ids: "MPA-8-03, MPA-8-04", file: "mpa/deframer.go", old: "return d.fail(protocol.MPAMarker, \"RFC 5044 section 4.3\",", new: "return d.fail(protocol.MPACRC, \"RFC 5044 section 4.3\","},
	{name: "kit-idle-ends", ids: "MPA-7.1.2-26, DDP-6.2-01", file: "conn.go", old: "\tgo c.receiveLoop()\n", new: "\t_ = c.nc.SetReadDeadline(time.Now().Add(time.Second / 5))\n\tgo c.receiveLoop()\n"},
	{name: "kit-fin-not-seen", ids: "MPA-7.2-01, DDP-6.2.1-05, DDP-6.2.1-01", file: "mpa/conn_recv.go", old: "\t\tif c.in.len() > 0 {\n", new: "\t\tselect {}\n\t\tif c.in.len() > 0 {\n"},

	// messages
	{name: "kit-last-octet-not-placed", ids: "DDP-5.3-01, MPA-4.1-02, RDMAP-5.3-04", file: "ddp/gather.go", old: "\tif off < g.start {", new: "\tif n := len(data); n > 0 && n != 18 {\n\t\tdata = data[:n-1]\n\t}\n\tif off < g.start {"},
	{name: "kit-empty-send-refused", ids: "RDMAP-5.3-04, DDP-5.2-07", file: "ddp/receiver.go", old: "\tcase off > m.limit:", new: "\tcase off > m.limit || off == 0 && n == 0 && h.Last && h.QN == 0:"},
	{name: "kit-empty-write-of-an-stag", ids: "DDP-5.2-08, RDMAP-5.1-04", file: "ddp/receiver.go", old: "\tcase len(payload) == 0:\n\t\treturn nil\n\tcase target.Sink", new: "\tcase len(payload) == 0 && h.STag == 0:\n\t\treturn nil\n\tcase target.Sink"},
	{name: "kit-empty-write-once", ids: "DDP-5.2-08, RDMAP-5.1-04", file: "rdmap/recv.go", old: "\tif n == 0 {\n\t\treturn ddp.Target{}, nil\n\t}\n", new: "\tif n == 0 && s.opened {\n\t\treturn ddp.Target{}, strayResponse(\"\")\n\t}\n\tif n == 0 {\n\t\treturn ddp.Target{}, nil\n\t}\n"},
	{name: "kit-solicited-not-told", ids: "RDMAP-5.3-08", file: "receives.go", old: "Solicited: d.Opcode.Solicited(),", new: "Solicited: false,"},
	{name: "kit-immediate-changed", ids: "EXT-6.2-01, EXT-6.3-01", file: "receives.go", old: "Immediate: d.Immediate, Invalidated", new: "Immediate: d.Immediate + 1, Invalidated"},
	{name: "kit-immediate-sent-changed", ids: "EXT-6.2-01, EXT-6.3-01", file: "rdmap/send.go", old: "e.scratch(ImmediateUint64(r.Immediate)", new: "e.scratch(ImmediateUint64(r.Immediate + 1)"},
	{name: "kit-invalidate-field-of-a-send", ids: "RDMAP-4.1-02, RDMAP-5.3-10", file: "rdmap/recv.go", old: "\tif op.Invalidates() {", new: "\tif op.Invalidates() || m.Header.ULP32 != 0 {"},
	{name: "kit-every-send-solicited", ids: "RDMAP-4.1-05", file: "rdmap/send.go", old: "\top := OpcodeSend\n\tif r.Solicited {", new: "\top := OpcodeSend\n\tif r.Solicited || r.Op == OpSend {"},
	{name: "kit-send-shortened", ids: "DDP-5.2-01, DDP-5.2-07, MPA-3-01", file: "rdmap/send.go", old: "\top := OpcodeSend\n", new: "\tif len(r.SG) == 1 && len(r.SG[0]) > 0 && r.SG[0][0] == 's' {\n\t\treturn t.untagged(OpcodeSend, 0), [][]byte{r.SG[0][:len(r.SG[0])-1]}\n\t}\n\top := OpcodeSend\n"},
	{name: "kit-write-shifted", ids: "DDP-5.2-06, RDMAP-5.1-01, RDMAP-5.1-06", file: "rdmap/send.go", old: "return t.tagged(OpcodeWrite, r.Remote.STag, r.Remote.TO), r.SG", new: "return t.tagged(OpcodeWrite, r.Remote.STag, r.Remote.TO+1), r.SG"},
	{name: "kit-read-of-one-more", ids: "RDMAP-4.4-01, RDMAP-5.2.1-01, RDMAP-5.2.1-06", file: "rdmap/send.go", old: "Size: e.total, SrcSTag", new: "Size: e.total + 1, SrcSTag"},
	{name: "kit-second-empty-read-lost", ids: "RDMAP-5.2.1-13, RDMAP-5.2.1-10", file: "rdmap/recv.go", old: "\tslot.read, slot.header, slot.isAtomic = r, m.Header, false\n", new: "\tslot.read, slot.header, slot.isAtomic = r, m.Header, false\n\tif r.Size == 0 && m.Header.MSN == 2 {\n\t\treturn nil\n\t}\n"},
}
