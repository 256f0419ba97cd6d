package mpa

import (
	"sync/atomic"

	"github.com/go-iwarp/iwarp/protocol"
)

// Stats counts what a connection has done since Full Operation began.
type Stats struct {
	FPDUsSent, FPDUsReceived     uint64 // framed, as of the last write; received whole and valid
	FPDUsAligned                 uint64 // of those sent, whole in a TCP segment: a prediction, see Align
	OctetsSent, OctetsReceived   uint64 // of FPDUs, Markers included
	OctetsRead                   uint64 // that TCP has handed up, those of an FPDU that is not whole yet included
	MarkersSent, MarkersReceived uint64
	Writes                       uint64 // calls that TCP took octets in
	SystemCalls                  uint64 // reads and writes, those that could do nothing included
	CRCErrors, MarkerErrors      uint64 // at most one in all: either ends reception
	EMSS                         int    // octets, as last asked; or FPDUMax
	Retransmits                  uint64 // TCP segments, where the operating system tells
}

type counters struct {
	fpdusSent, octetsSent, markersSent, writes     atomic.Uint64
	fpdusAligned                                   atomic.Uint64
	fpdusReceived, octetsReceived, markersReceived atomic.Uint64
	octetsRead                                     atomic.Uint64
	sendCalls, recvCalls                           atomic.Uint64
	crcErrors, markerErrors                        atomic.Uint64
	emss                                           atomic.Int64
}

func (s *counters) refused(code protocol.Code) {
	if code == protocol.MPACRC {
		s.crcErrors.Add(1)
	} else {
		s.markerErrors.Add(1)
	}
}

// Stats returns the counters. They are read one by one, not at one instant.
func (c *Conn) Stats() Stats {
	s := Stats{
		FPDUsSent: c.stats.fpdusSent.Load(), FPDUsReceived: c.stats.fpdusReceived.Load(),
		FPDUsAligned: c.stats.fpdusAligned.Load(),
		OctetsSent:   c.stats.octetsSent.Load(), OctetsReceived: c.stats.octetsReceived.Load(),
		OctetsRead:  c.stats.octetsRead.Load(),
		MarkersSent: c.stats.markersSent.Load(), MarkersReceived: c.stats.markersReceived.Load(),
		Writes: c.stats.writes.Load(), SystemCalls: c.stats.sendCalls.Load() + c.stats.recvCalls.Load(),
		CRCErrors: c.stats.crcErrors.Load(), MarkerErrors: c.stats.markerErrors.Load(),
		EMSS: int(c.stats.emss.Load()),
	}
	if c.tcp && c.sock != nil {
		s.Retransmits, _ = c.sock.Retransmits()
	}
	return s
}

// Counts returns four of the counters of Stats, without a system call.
func (c *Conn) Counts() (sent, octetsSent, received, octetsReceived uint64) {
	s := &c.stats
	return s.fpdusSent.Load(), s.octetsSent.Load(), s.fpdusReceived.Load(), s.octetsReceived.Load()
}
