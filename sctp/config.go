package sctp

import (
	"fmt"
	"net"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Config configures the SCTP below. Nil, and zero in a field, mean the documented default.
type Config struct {
	// MTU is the size of the largest SCTP packet, in octets: what an IP packet holds besides the
	// headers of IP and UDP. Default: what the MTU of the local interface leaves, at most 8192.
	// One DDP segment goes into one packet, so that this is what it costs, and what the path
	// has to carry.
	MTU int
	// Streams is how many DDP streams one association can have, in the eyes of this end: the
	// smaller of both ends' numbers holds. Default 64, at most 65535.
	Streams int
	// Indication is the Adaptation Layer Indication that both ends must have. Default:
	// IndicationDDP. Peers with another one, or with none, are refused
	// (https://www.rfc-editor.org/rfc/rfc5043#section-7.1).
	Indication uint32
	// ReceiveBuffer is how many octets an association may have in its receive queues, all its
	// streams together. Default 1 MiB.
	ReceiveBuffer int
	// MaxAssociations bounds the associations of a listener, MaxHalfOpen those of them whose
	// handshake is not over: a new one takes the place of the oldest. Defaults 1024 and 128.
	MaxAssociations, MaxHalfOpen int
	// IdleTimeout is how long an association of a listener may have no session. Default 10 s.
	IdleTimeout time.Duration
}

// maxMTU is what the SCTP below reads at a time.
const maxMTU = 8192

// minMTU leaves room for a segment of MinSegment octets.
const minMTU = 576

func (c *Config) withDefaults() (*Config, error) {
	var n Config
	if c != nil {
		n = *c
	}
	for _, f := range []struct {
		name               string
		value              *int
		def, least, atMost int
	}{
		{"Streams", &n.Streams, 64, 1, 65535},
		{"ReceiveBuffer", &n.ReceiveBuffer, 1 << 20, 64 << 10, 1 << 30},
		{"MaxAssociations", &n.MaxAssociations, 1024, 1, 1 << 20},
		{"MaxHalfOpen", &n.MaxHalfOpen, 128, 1, 1 << 20},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < f.least || *f.value > f.atMost {
			return nil, fmt.Errorf("%w: sctp: Config.%s is %d: between %d and %d",
				iwarp.ErrLimit, f.name, *f.value, f.least, f.atMost)
		}
	}
	if n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU) {
		return nil, fmt.Errorf("%w: sctp: Config.MTU is %d: between %d and %d", iwarp.ErrLimit, n.MTU, minMTU, maxMTU)
	}
	// Rule: SCTP-7.1-01
	if n.Indication == 0 {
		n.Indication = IndicationDDP
	}
	if n.IdleTimeout == 0 {
		n.IdleTimeout = 10 * time.Second
	}
	return &n, nil
}

// mtu is the size of packets on a conn with the address given.
func (c *Config) mtu(local net.Addr) int {
	if c.MTU != 0 {
		return c.MTU
	}
	const fallback = 1280 - 48 // IPv6's least MTU, less IPv6 and UDP
	u, ok := local.(*net.UDPAddr)
	if !ok {
		return fallback
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return fallback
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(u.IP) {
				return max(minMTU, min(maxMTU, i.MTU-48))
			}
		}
	}
	return fallback
}

// segmentMax is the size of the largest DDP segment for an MTU: it fills a packet but for
// what an acknowledgement takes that may go with it.
//
// Rule: SCTP-9-01, SCTP-9-02, SCTP-9-03
func segmentMax(mtu int) int {
	const acknowledgement = 20
	return max(MinSegment, (mtu-commonHeaderLen-dataHeaderLen-acknowledgement)&^3-SegmentHeaderLen)
}
