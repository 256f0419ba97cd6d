package analysis_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// readOwn is the judge without limits: iwarptest's strict reader, which shares no
// code with the library, on the streams of a recording. It gives what it saw by
// the ports of the two ends, as askTshark does.
func readOwn(rec *capture.Reader) (map[[2]int]*sight, error) {
	type pair [2]netip.AddrPort
	streams := map[pair][]byte{}
	next := map[pair]uint32{}
	for i := 0; ; i++ {
		var p capture.Packet
		if err := rec.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		s, ok := analysis.ParseSegment(p.Data)
		if !ok {
			return nil, fmt.Errorf("packet %d is no TCP segment", i)
		}
		key := pair{s.Src, s.Dst}
		if s.SYN {
			next[key] = s.Seq + 1
		} else if s.Seq != next[key] {
			return nil, fmt.Errorf("packet %d: sequence number %d, want %d", i, s.Seq, next[key])
		}
		next[key] += uint32(len(s.Payload))
		streams[key] = append(streams[key], s.Payload...)
	}
	seen := map[[2]int]*sight{}
	for key, octets := range streams {
		s := &sight{}
		seen[[2]int{int(key[0].Port()), int(key[1].Port())}] = s
		mine, rest, ok := ownStartup(octets)
		theirs, _, ok2 := ownStartup(streams[pair{key[1], key[0]}])
		if !ok || !ok2 {
			s.trouble = append(s.trouble, "no startup frame")
			continue
		}
		s.startup = []frame{mine}
		s.fpdus(&iwarptest.Framer{Markers: theirs.markers, NoCRC: !mine.crc && !theirs.crc}, rest)
	}
	return seen, nil
}

// fpdus reads all of a direction's octets.
func (s *sight) fpdus(f *iwarptest.Framer, rest []byte) {
	for len(rest) > 0 {
		ulpdu, n, err := f.Unframe(rest)
		if err == nil && n == 0 {
			err = fmt.Errorf("%d octets are left at octet %d of the stream", len(rest), f.Pos)
		}
		if err != nil {
			s.bad++
			s.trouble = append(s.trouble, err.Error())
			return
		}
		if !f.NoCRC {
			s.good++
		}
		m, last, ok := ownSegment(ulpdu)
		if !ok {
			s.trouble = append(s.trouble, "short segment "+iwarptest.Describe(ulpdu))
			return
		}
		s.segment(m, last)
		rest = rest[n:]
	}
}

// ownStartup takes a startup frame off the start of a stream.
func ownStartup(b []byte) (f frame, rest []byte, ok bool) {
	if len(b) < 20 {
		return frame{}, nil, false
	}
	n := 20 + int(binary.BigEndian.Uint16(b[18:]))
	if len(b) < n {
		return frame{}, nil, false
	}
	return frame{
		markers: b[16]&iwarptest.FlagM != 0, crc: b[16]&iwarptest.FlagC != 0, reject: b[16]&iwarptest.FlagR != 0,
		rev: int(b[17]), private: n - 20,
	}, b[n:], true
}

func ownSegment(b []byte) (m message, last, ok bool) {
	header := 18
	if len(b) > 0 && b[0]&0x80 != 0 {
		header = 14
	}
	if len(b) < header {
		return message{}, false, false
	}
	m = message{op: int(b[1] & 0xf), length: len(b) - header}
	if m.op == opTerminate && m.length >= 2 {
		m.code = binary.BigEndian.Uint16(b[header:])
	}
	return m, b[0]&0x40 != 0, true
}
