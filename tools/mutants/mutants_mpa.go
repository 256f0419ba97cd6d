package main

var mpaMutants = []mutant{
	// frames
	{name: "length-little-endian", ids: "MPA-4.1-01", file: "mpa/framer.go", old: "bits.ReverseBytes16(uint16(n))", new: "uint16(n)|bits.ReverseBytes16(0)"},
	{name: "length-counts-itself", ids: "MPA-4.1-02", file: "mpa/framer.go", old: "binary.BigEndian.PutUint16(length[:], uint16(n))", new: "binary.BigEndian.PutUint16(length[:], uint16(n+2))"},
	{name: "pad-not-zero", ids: "MPA-4.1-03", file: "mpa/framer.go", old: "var zero [3]byte", new: "zero := [3]byte{1, 1, 1}"},
	{name: "pad-formula", ids: "MPA-4.1-05", file: "mpa/mulpdu.go", old: "return -(lengthLen + n) & 3", new: "return (lengthLen + n) & 3"},
	{name: "crc-wrong", ids: "MPA-4.4-11", file: "mpa/crc.go", old: "return crc32c.Update(crc, b)", new: "return crc32c.Update(crc, b) ^ 1"},
	{name: "crc-polynomial", ids: "MPA-4.4-11, DDP-3-06", file: "internal/crc32c/crc32c.go", old: "crc32.MakeTable(crc32.Castagnoli)", new: "crc32.MakeTable(crc32.IEEE)"},
	{name: "crc-big-endian-in", ids: "MPA-4.4-11, MPA-4.4-14", file: "mpa/deframer.go", old: "binary.LittleEndian.Uint32(b[end:])", new: "binary.BigEndian.Uint32(b[end:])"},
	{name: "crc-without-pad", ids: "MPA-4.4-12", file: "mpa/framer.go", old: "w.put(zero[:pad])", new: "w.at += copy(w.to[w.at:], zero[:pad])"},
	{name: "crc-without-gathered", ids: "MPA-4.4-12", file: "mpa/framer.go", old: "w.sum = updateCRC(w.sum, p)", new: "_ = updateCRC(w.sum, p)"},
	{name: "crc-without-first-marker-out", ids: "MPA-4.4-13", file: "mpa/framer.go", old: "updateCRC(0, w.to[:w.at])", new: "updateCRC(0, w.to[w.start:w.at])"},
	{name: "crc-without-first-marker-in", ids: "MPA-4.4-13, MPA-4.3-07", file: "mpa/deframer.go", old: "updateCRC(0, b[:end])", new: "updateCRC(0, b[l.start:end])"},
	{name: "crc-not-checked", ids: "MPA-4.4-14, MPA-4.4-15, MPA-8-02, MPA-6-01", file: "mpa/deframer.go", old: "if d.CRC {", new: "if d.CRC && len(b) == 0 {"},
	{name: "crc-checked-though-off", ids: "MPA-4.1-06, MPA-7.1.1-10", file: "mpa/deframer.go", old: "if d.CRC {", new: "if d.CRC || len(b) > 0 {"},
	{name: "empty-ulpdu-sent", ids: "MPA-3-06", file: "mpa/sender.go", old: "\tif n < 1 || n > MaxULPDU {", new: "\tif n > MaxULPDU {"},
	{name: "two-in-one", ids: "MPA-3-01, MPA-4.3-12", file: "mpa/deframer.go", old: "return b[from : from+length : from+length], l.total, 0, nil", new: "return b[from : from+length/2 : from+length], l.total, 0, nil"},
	{name: "pad-handed-up", ids: "MPA-4.3-13, MPA-3-07", file: "mpa/deframer.go", old: "return b[from : from+length : from+length], l.total, 0, nil", new: "length += padLen(length)\n\treturn b[from : from+length : from+length], l.total, 0, nil"},
	{name: "before-all-is-there", ids: "MPA-6-03, MPA-5.1-05", file: "mpa/deframer.go", old: "if len(b) < l.total {", new: "if len(b) < l.total-1 {"},
	{name: "going-on-after-an-error", ids: "MPA-8-08", file: "mpa/deframer.go", old: "if d.err != nil {", new: "if d.err != nil && len(b) == 0 {"},

	// Markers
	{name: "marker-distance", ids: "MPA-4.3-04", file: "mpa/mulpdu.go", old: "markerStep = 512", new: "markerStep = 516"},
	{name: "marker-first-missing", ids: "MPA-4.3-08", file: "mpa/framer.go", old: "= firstMarker(f.pos), false, f.CRC", new: "= firstMarker(f.pos+4), false, f.CRC"},
	{name: "marker-points-beside", ids: "MPA-4.2-03", file: "mpa/framer.go", old: "uint32(max(w.at-w.start, 0))", new: "uint32(max(w.at-w.start, 0)+4)"},
	{name: "marker-points-to-marker", ids: "MPA-4.3-10, MPA-4.3-05", file: "mpa/framer.go", old: "\t\tw.start = w.at\n", new: "\t\tw.start = 0\n"},
	{name: "marker-reserved-sent", ids: "MPA-4.2-02", file: "mpa/framer.go", old: "uint32(max(w.at-w.start, 0))", new: "uint32(max(w.at-w.start, 0))|1<<16"},
	{name: "marker-reserved-checked", ids: "MPA-4.2-02", file: "mpa/deframer.go", old: "got := binary.BigEndian.Uint16(b[at+2:]) &^ 3", new: "got := binary.BigEndian.Uint16(b[at+2:])&^3 | binary.BigEndian.Uint16(b[at:])"},
	{name: "marker-low-bits-checked", ids: "MPA-4.2-05", file: "mpa/deframer.go", old: "binary.BigEndian.Uint16(b[at+2:]) &^ 3", new: "binary.BigEndian.Uint16(b[at+2:])"},
	{name: "marker-before-crc-missing", ids: "MPA-4.4-12", file: "mpa/framer.go", old: "w.marker() // one between", new: "// one between"},
	{name: "marker-at-the-end-too-early", ids: "MPA-4.3-07, MPA-4.3-11", file: "mpa/mulpdu.go", old: "rest > 0 {", new: "rest >= 0 {"},
	{name: "marker-not-checked", ids: "MPA-8-03, MPA-8-04", file: "mpa/deframer.go", old: "want := uint16(max(at-l.start, 0))", new: "want := got"},
	{name: "marker-not-taken-out", ids: "MPA-4.3-13", file: "mpa/deframer.go", old: "if l.markers > 0 {", new: "if l.markers > 1000 {"},
	{name: "marker-not-taken-out-in-the-middle", ids: "MPA-4.3-13, MPA-4.3-12", file: "mpa/deframer.go", old: "next := min(at+markerStep, len(b))", new: "next := len(b)"},

	// MULPDU
	{name: "mulpdu-floor", ids: "MPA-3-04", file: "mpa/mulpdu.go", old: "return min(max(n, MinMULPDU), MaxULPDU)", new: "return min(n, MaxULPDU)"},
	{name: "mulpdu-ceiling", ids: "MPA-3-04", file: "mpa/mulpdu.go", old: "return min(max(n, MinMULPDU), MaxULPDU)", new: "return max(n, MinMULPDU)"},
	{name: "mulpdu-tiny-emss", ids: "MPA-4.5-06", file: "mpa/mulpdu.go", old: "\t\treturn MinMULPDU\n", new: "\t\treturn emss\n"},
	{name: "mulpdu-not-a-multiple", ids: "MPA-4.5-02", file: "mpa/mulpdu.go", old: "(lengthLen + crcLen + emss%4)", new: "(lengthLen + crcLen)"},
	{name: "mulpdu-marker-rounding", ids: "MPA-4.5-01", file: "mpa/mulpdu.go", old: "(emss + markerStep - 1) / markerStep", new: "emss / markerStep"},
	{name: "mulpdu-never-changes", ids: "MPA-4.5-05, MPA-3-02, DDP-3-01", file: "mpa/conn_send.go", old: "if c.gone >= c.every || c.knobs.Load() != c.seenKnobs {", new: "if c.every == 0 && (c.gone >= c.every || c.knobs.Load() != c.seenKnobs) {"},
	{name: "mulpdu-not-from-tcp", ids: "MPA-5.1-01, MPA-4.5-05", file: "mpa/conn_send.go", old: "err == nil && n > 0 {\n\t\t\temss = n", new: "err == nil && n > 1<<30 {\n\t\t\temss = n"},
	{name: "segments-not-aligned", ids: "MPA-5.1-03", file: "mpa/segments.go", old: "s.fill > 0 && s.fill+n > s.emss", new: "s.fill > 1<<30 && s.fill+n > s.emss"},

	// the connection
	{name: "responder-speaks-first", ids: "MPA-7.1.2-14", file: "mpa/conn.go", old: "c.maySend.Store(p.Initiator)", new: "c.maySend.Store(true)"},
	{name: "responder-never-speaks", ids: "MPA-7.1.2-14", file: "mpa/conn_recv.go", old: "if t.fpdus == 0 && !c.maySend.Load() {", new: "if t.fpdus == 1<<40 && !c.maySend.Load() {"},
	{name: "held-is-not-held", ids: "MPA-7.1.2-14", file: "mpa/conn_send.go", old: "return ErrHeld", new: "_ = ErrHeld"},
	{name: "markers-of-the-other-direction", ids: "MPA-7.1.1-06", file: "mpa/conn.go", old: "Framer{Markers: p.SendMarkers,", new: "Framer{Markers: p.RecvMarkers,"},
	{name: "crc-agreed-and-not-checked", ids: "MPA-7.1.1-09, MPA-4.4-07", file: "mpa/conn.go", old: "Deframer{Markers: p.RecvMarkers, CRC: p.CRC}", new: "Deframer{Markers: p.RecvMarkers}"},
	{name: "fin-inside-an-fpdu", ids: "MPA-8-01", file: "mpa/conn_recv.go", old: "if c.in.len() > 0 {", new: "if c.in.len() > 1<<30 {"},
	{name: "fin-not-told", ids: "MPA-3-09, MPA-7.2-02, DDP-3-09", file: "mpa/conn_recv.go", old: "io.ErrUnexpectedEOF)\n\t\t}\n\t\treturn io.EOF", new: "io.ErrUnexpectedEOF)\n\t\t}\n\t\treturn connError(\"FIN\", io.ErrUnexpectedEOF)"},
	{name: "mpa-closes-by-itself", ids: "MPA-8-09", file: "mpa/conn_recv.go", old: "c.stats.refused(perr.Code)", new: "c.stats.refused(perr.Code)\n\t\t\t_ = c.nc.Close()"},
	{name: "write-error-lost", ids: "DDP-3-03, MPA-8-01, DDP-7-01", file: "mpa/conn_send.go", old: "c.werr = err\n\t\t\t}\n\t\t\treturn false, err", new: "c.werr = err\n\t\t\t}\n\t\t\treturn true, nil"},
}
