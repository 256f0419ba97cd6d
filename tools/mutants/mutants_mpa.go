package main

var mpaMutants = []mutant{
	// frames
	{
		name: "length-little-endian", ids: "MPA-4.1-01", in: "mpa.fpduWriter.head",
		old: "bits.ReverseBytes16(uint16(n))", new: "uint16(n)|bits.ReverseBytes16(0)",
	},
	{
		name: "length-counts-itself", ids: "MPA-4.1-02", in: "mpa.fpduWriter.head",
		old: "binary.BigEndian.PutUint16(length[:], uint16(n))",
		new: "binary.BigEndian.PutUint16(length[:], uint16(n+2))",
	},
	{
		name: "pad-not-zero", ids: "MPA-4.1-03", in: "mpa.fpduWriter.end", old: "var zero [3]byte",
		new: "zero := [3]byte{1, 1, 1}",
	},
	{
		name: "pad-formula", ids: "MPA-4.1-05", in: "mpa.padLen", old: "return -(lengthLen + n) & 3",
		new: "return (lengthLen + n) & 3",
	},
	{
		name: "crc-wrong", ids: "MPA-4.4-11", in: "mpa.updateCRC", old: "return crc32c.Update(crc, b)",
		new: "return crc32c.Update(crc, b) ^ 1",
	},
	{
		name: "crc-polynomial", ids: "MPA-4.4-11, DDP-3-06", in: "internal/crc32c.table",
		old: "crc32.MakeTable(crc32.Castagnoli)", new: "crc32.MakeTable(crc32.IEEE)",
	},
	{
		name: "crc-big-endian-in", ids: "MPA-4.4-11, MPA-4.4-14", in: "mpa.Deframer.check",
		old: "binary.LittleEndian.Uint32(b[end:])", new: "binary.BigEndian.Uint32(b[end:])",
	},
	{
		name: "crc-without-pad", ids: "MPA-4.4-12", in: "mpa.fpduWriter.end", old: "w.put(zero[:pad])",
		new: "w.at += copy(w.to[w.at:], zero[:pad])",
	},
	{
		name: "crc-without-gathered", ids: "MPA-4.4-12", in: "mpa.fpduWriter.refer", old: "w.sum = updateCRC(w.sum, p)",
		new: "_ = updateCRC(w.sum, p)",
	},
	{
		name: "crc-without-first-marker-out", ids: "MPA-4.4-13", in: "mpa.fpduWriter.end",
		old: "updateCRC(0, w.to[:w.at])", new: "updateCRC(0, w.to[w.start:w.at])",
	},
	{
		name: "crc-without-first-marker-in", ids: "MPA-4.4-13, MPA-4.3-07", in: "mpa.Deframer.check",
		old: "updateCRC(0, b[:end])", new: "updateCRC(0, b[l.start:end])",
	},
	{
		name: "crc-not-checked", ids: "MPA-4.4-14, MPA-4.4-15, MPA-8-02, MPA-6-01", in: "mpa.Deframer.check",
		old: "if d.CRC {", new: "if d.CRC && len(b) == 0 {",
	},
	{
		name: "crc-checked-though-off", ids: "MPA-4.1-06, MPA-7.1.1-10", in: "mpa.Deframer.check", old: "if d.CRC {",
		new: "if d.CRC || len(b) > 0 {",
	},
	{
		name: "empty-ulpdu-sent", ids: "MPA-3-06", in: "mpa.sender.add", old: "if n < 1 || n > MaxULPDU {",
		new: "if n > MaxULPDU {",
	},
	{
		name: "two-in-one", ids: "MPA-3-01, MPA-4.3-12", in: "mpa.Deframer.Next",
		old: "return b[from : from+length : from+length], l.total, 0, nil",
		new: "return b[from : from+length/2 : from+length], l.total, 0, nil",
	},
	{
		name: "pad-handed-up", ids: "MPA-4.3-13, MPA-3-07", in: "mpa.Deframer.Next",
		old: "return b[from : from+length : from+length], l.total, 0, nil",
		new: "length += padLen(length); return b[from : from+length : from+length], l.total, 0, nil",
	},
	{
		name: "before-all-is-there", ids: "MPA-6-03, MPA-5.1-05", in: "mpa.Deframer.Next", old: "if len(b) < l.total {",
		new: "if len(b) < l.total-1 {",
	},
	{
		name: "going-on-after-an-error", ids: "MPA-8-08", in: "mpa.Deframer.Next", old: "if d.err != nil {",
		new: "if d.err != nil && len(b) == 0 {",
	},

	// Markers
	{
		name: "marker-distance", ids: "MPA-4.3-04", in: "mpa.markerStep", old: "markerStep = 512",
		new: "markerStep = 516",
	},
	{
		name: "marker-first-missing", ids: "MPA-4.3-08", in: "mpa.framer.encode",
		old: "= firstMarker(f.pos), false, f.crc", new: "= firstMarker(f.pos+4), false, f.crc",
	},
	{
		name: "marker-points-beside", ids: "MPA-4.2-03", in: "mpa.fpduWriter.marker",
		old: "uint32(max(w.at-w.start, 0))", new: "uint32(max(w.at-w.start, 0)+4)",
	},
	{
		name: "marker-points-to-marker", ids: "MPA-4.3-10, MPA-4.3-05", in: "mpa.framer.encode", old: "w.start = w.at",
		new: "w.start = 0",
	},
	{
		name: "marker-reserved-sent", ids: "MPA-4.2-02", in: "mpa.fpduWriter.marker",
		old: "uint32(max(w.at-w.start, 0))", new: "uint32(max(w.at-w.start, 0))|1<<16",
	},
	{
		name: "marker-reserved-checked", ids: "MPA-4.2-02", in: "mpa.Deframer.check",
		old: "got := binary.BigEndian.Uint16(b[at+2:]) &^ 3",
		new: "got := binary.BigEndian.Uint16(b[at+2:])&^3 | binary.BigEndian.Uint16(b[at:])",
	},
	{
		name: "marker-low-bits-checked", ids: "MPA-4.2-05", in: "mpa.Deframer.check",
		old: "binary.BigEndian.Uint16(b[at+2:]) &^ 3", new: "binary.BigEndian.Uint16(b[at+2:])",
	},
	{name: "marker-before-crc-missing", ids: "MPA-4.4-12", in: "mpa.fpduWriter.end", old: "w.marker()", new: ""},
	{
		name: "marker-at-the-end-too-early", ids: "MPA-4.3-07, MPA-4.3-11", in: "mpa.layoutOf", old: "rest > 0 {",
		new: "rest >= 0 {",
	},
	{
		name: "marker-not-checked", ids: "MPA-8-03, MPA-8-04", in: "mpa.Deframer.check",
		old: "want := uint16(max(at-l.start, 0))", new: "want := got",
	},
	{
		name: "marker-not-taken-out", ids: "MPA-4.3-13", in: "mpa.Deframer.Next", old: "if l.markers > 0 {",
		new: "if l.markers > 1000 {",
	},
	{
		name: "marker-not-taken-out-in-the-middle", ids: "MPA-4.3-13, MPA-4.3-12", in: "mpa.Deframer.compact",
		old: "next := min(at+markerStep, len(b))", new: "next := len(b)",
	},

	// MULPDU
	{
		name: "mulpdu-floor", ids: "MPA-3-04", in: "mpa.MULPDU", old: "return min(max(n, MinMULPDU), MaxULPDU)",
		new: "return min(n, MaxULPDU)",
	},
	{
		name: "mulpdu-ceiling", ids: "MPA-3-04", in: "mpa.MULPDU", old: "return min(max(n, MinMULPDU), MaxULPDU)",
		new: "return max(n, MinMULPDU)",
	},
	{name: "mulpdu-tiny-emss", ids: "MPA-4.5-06", in: "mpa.MULPDU", old: "return MinMULPDU", new: "return emss"},
	{
		name: "mulpdu-not-a-multiple", ids: "MPA-4.5-02", in: "mpa.MULPDU", old: "(lengthLen + crcLen + emss%4)",
		new: "(lengthLen + crcLen)",
	},
	{
		name: "mulpdu-marker-rounding", ids: "MPA-4.5-01", in: "mpa.MULPDU",
		old: "(emss + markerStep - 1) / markerStep", new: "emss / markerStep",
	},
	{
		name: "mulpdu-never-changes", ids: "MPA-4.5-05, MPA-3-02, DDP-3-01", in: "mpa.Conn.refresh",
		old: "if c.gone >= c.every || c.knobs.Load() != c.seenKnobs {",
		new: "if c.every == 0 && (c.gone >= c.every || c.knobs.Load() != c.seenKnobs) {",
	},
	{
		name: "mulpdu-not-from-tcp", ids: "MPA-5.1-01, MPA-4.5-05", in: "mpa.Conn.readEMSS",
		old: "err == nil && n > 0 { emss = n", new: "err == nil && n > 1<<30 { emss = n",
	},
	{
		name: "segments-not-aligned", ids: "MPA-5.1-03", in: "mpa.segments.endBefore",
		old: "s.fill > 0 && s.fill+n > s.emss", new: "s.fill > 1<<30 && s.fill+n > s.emss",
	},
	{
		name: "fitted-below-128", ids: "MPA-4.5-07", in: "mpa.segments.ulpdu", old: "case n >= minFit:",
		new: "case n >= minFit/2:",
	},
	{
		name: "messages-not-fitted", ids: "MPA-5.1-03", in: "mpa.segments.ulpdu", old: "case n >= minFit:",
		new: "case n >= 1<<30:",
	},
	{
		name: "segments-odd", ids: "MPA-5.1-03", in: "internal/tcpsock.FourfoldSegments",
		old: "size := (mtu - headers) &^ 3", new: "size := mtu - headers",
	},
	{
		name: "segments-not-ended", ids: "MPA-5.1-03", in: "internal/tcpsock.manyHeaders.fill",
		old: "if eor && whole {", new: "if eor && !whole {",
	},
	{
		name: "segment-not-ended", ids: "MPA-5.1-03", in: "mpa.Conn.write", old: "c.sock.Send(pieces, end, wait)",
		new: "c.sock.Send(pieces, false, wait)",
	},
	{
		name: "last-segment-of-many-not-ended", ids: "MPA-5.1-03", in: "mpa.Conn.write",
		old: "c.sock.SendSegments(pieces, cuts, start, end, wait)",
		new: "c.sock.SendSegments(pieces, cuts, start, false, wait)",
	},

	// the connection
	{
		name: "responder-speaks-first", ids: "MPA-7.1.2-14", in: "mpa.NewConn", old: "c.maySend.Store(p.Initiator)",
		new: "c.maySend.Store(true)",
	},
	{
		name: "responder-never-speaks", ids: "MPA-7.1.2-14", in: "mpa.Conn.deliver",
		old: "if t.fpdus == 0 && !c.maySend.Load() {", new: "if t.fpdus == 1<<40 && !c.maySend.Load() {",
	},
	{name: "held-is-not-held", ids: "MPA-7.1.2-14", in: "mpa.Conn.mayQueue", old: "return ErrHeld", new: "_ = ErrHeld"},
	{
		name: "markers-of-the-other-direction", ids: "MPA-7.1.1-06", in: "mpa.NewConn",
		old: "framer{marked: p.SendMarkers,", new: "framer{marked: p.RecvMarkers,",
	},
	{
		name: "crc-agreed-and-not-checked", ids: "MPA-7.1.1-09, MPA-4.4-07", in: "mpa.NewConn",
		old: "Deframer{Markers: p.RecvMarkers, CRC: p.CRC}", new: "Deframer{Markers: p.RecvMarkers}",
	},
	{
		name: "fin-inside-an-fpdu", ids: "MPA-8-01", in: "mpa.Conn.fill", old: "if c.in.len() > 0 {",
		new: "if c.in.len() > 1<<30 {",
	},
	{
		name: "fin-not-told", ids: "MPA-3-09, MPA-7.2-02, DDP-3-09", in: "mpa.Conn.fill",
		old: "io.ErrUnexpectedEOF) }; return io.EOF",
		new: `io.ErrUnexpectedEOF) }; return connError("FIN", io.ErrUnexpectedEOF)`,
	},
	{
		name: "mpa-closes-by-itself", ids: "MPA-8-09", in: "mpa.Conn.deliver", old: "c.stats.refused(perr.Code)",
		new: "c.stats.refused(perr.Code); _ = c.nc.Close()",
	},
	{
		name: "write-error-lost", ids: "DDP-3-03, MPA-8-01, DDP-7-01", in: "mpa.Conn.Flush",
		old: "c.werr = err }; return false, err", new: "c.werr = err }; return true, nil",
	},
}
