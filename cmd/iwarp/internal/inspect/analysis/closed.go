package analysis

import "maps"

// closed makes the last event of a connection.
func (r *Reader) closed(c *tcpConn, how string) {
	an := c.an
	ends := [2]endpoint{c.key.a, c.key.b}
	s := Conn{
		Number: an.number, A: ends[an.a].addrPort(), B: ends[1-an.a].addrPort(), Roles: an.roles,
		MidStream:  an.midStream,
		FirstFrame: c.first, LastFrame: c.last, Start: asTime(c.firstTime), End: asTime(c.lastTime),
		Negotiated: an.neg, CRC: [...]string{crcUnknown: "unknown", crcOn: "on", crcOff: "off"}[an.crc],
		From:  [2]DirStats{c.half[an.a].stats, c.half[1-an.a].stats},
		Reads: an.reads.summary(), Atomics: an.atomics.summary(),
		Hints: an.hints, Verdicts: maps.Clone(an.verdicts),
	}
	for i := range s.From {
		if s.From[i].Messages == nil {
			s.From[i].Messages = map[string]uint64{}
		}
	}
	r.emit(&Closed{Head: c.headOf(EventClosed, -1, span{frame: c.last, time: c.lastTime}), How: how, Conn: s})
}
