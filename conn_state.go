package iwarp

import (
	"log/slog"
	"slices"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/rdmap"
)

// ConnectionState is what two ends agreed on at startup, with what the peer said.
type ConnectionState struct {
	Initiator   bool  // this end dialed
	Revision    uint8 // of MPA
	RDMAC       bool  // the RDMA Consortium's protocols are spoken (revision 0)
	SendMarkers bool  // this end inserts Markers
	RecvMarkers bool  // the peer does
	CRC         bool  // in both directions
	Enhanced    bool  // the frames carried RFC 6581's block
	PeerToPeer  bool  // the initiator opened the stream with an RTR
	RTR         RTR   // kinds that both ends support
	IRD, ORD    int   // depths in force at this end
	// PeerIRD and PeerORD are what the peer said, [NotNegotiated] if it said nothing.
	PeerIRD, PeerORD int
	// PrivateData is what the peer's ULP sent with its startup frame.
	PrivateData []byte
}

func stateOf(p mpa.Params, cfg *Config) ConnectionState {
	return ConnectionState{
		Initiator: p.Initiator, Revision: p.Revision, RDMAC: p.Revision == mpa.Revision0, SendMarkers: p.SendMarkers,
		RecvMarkers: p.RecvMarkers, CRC: p.CRC,
		Enhanced: p.Enhanced, PeerToPeer: p.PeerToPeer, RTR: p.RTR,
		IRD: agreedIRD(p, cfg), ORD: agreedORD(p, cfg),
		PeerIRD: p.PeerIRD, PeerORD: p.PeerORD, PrivateData: p.PrivateData,
	}
}

// agreedIRD returns how many Reads this end serves at once. Nothing is lost by
// serving the default number where the ULPs agree by themselves.
func agreedIRD(p mpa.Params, cfg *Config) int {
	switch {
	case p.IRD != NotNegotiated:
		return p.IRD
	case cfg.IRD == NotNegotiated:
		return min(defaultDepth, cfg.Device.limits.MaxRead)
	}
	return cfg.IRD
}

// agreedORD returns how many Reads this end may have outstanding. If the peer did
// not say what it takes (revision 1, or 0x3fff) more than one is the program's
// risk, and only taken when it has set a number.
func agreedORD(p mpa.Params, cfg *Config) int {
	switch {
	case p.PeerIRD != NotNegotiated && p.ORD != NotNegotiated:
		return p.ORD
	case cfg.ordSet && cfg.ORD != NotNegotiated:
		return cfg.ORD
	}
	return 1
}

// LogValue implements [slog.LogValuer].
func (s ConnectionState) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("initiator", s.Initiator), slog.Int("revision", int(s.Revision)),
		slog.Bool("send_markers", s.SendMarkers), slog.Bool("recv_markers", s.RecvMarkers), slog.Bool("crc", s.CRC),
		slog.Bool("peer_to_peer", s.PeerToPeer), slog.String("rtr", s.RTR.String()),
		slog.Int("ird", s.IRD), slog.Int("ord", s.ORD), slog.Int("private_data", len(s.PrivateData)),
	)
}

// ConnectionState returns what startup agreed on. The octets of PrivateData are the
// caller's.
func (c *Conn) ConnectionState() ConnectionState {
	st := c.agreed
	st.PrivateData = slices.Clone(st.PrivateData)
	return st
}

// Support is what is known of whether the peer knows an operation.
type Support = rdmap.Support

// What can be known: see [Conn.PeerSupports].
const (
	SupportUnknown = rdmap.SupportUnknown
	Supported      = rdmap.Supported
	NotSupported   = rdmap.NotSupported
)

// PeerSupports tells what this connection has shown of the peer: whether it takes
// atomics or Immediate Data, which nothing negotiates (RFC 7306 section 1.1).
// This package supports every operation itself.
func (c *Conn) PeerSupports(op Op) Support { return c.stream.PeerSupports(op) }

// Stats are a connection's counters and its sizes at the moment.
type Stats struct {
	MPA    mpa.Stats   // zero over another LLP
	LLP    ddp.Carried // of an LLP other than MPA that counts; else zero
	DDP    ddp.Stats   // segments that came out of order; zero where the LLP keeps the order
	RDMAP  rdmap.Stats // messages and payload
	MULPDU int         // octets of the largest segment sent, as last used; 0 if the LLP does not tell
}

// Stats returns the counters. They are read one by one, not at one instant.
func (c *Conn) Stats() Stats {
	s := Stats{RDMAP: c.stream.Stats(), DDP: c.stream.PlacementStats()}
	if c.under.early != nil {
		s.DDP.Ahead, s.DDP.MaxAhead = c.under.early.Ahead()
	}
	if c.under.carried != nil {
		s.LLP = c.under.carried()
		s.MULPDU = s.LLP.MULPDU
	}
	if c.under.mpa != nil {
		s.MPA = c.under.mpa()
		s.MULPDU = mpa.MULPDU(s.MPA.EMSS, c.agreed.SendMarkers)
		if most := c.cfg.MPA.maxSegment(); most > 0 {
			s.MULPDU = min(s.MULPDU, most)
		}
	}
	return s
}
