package ui

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/mpa"
)

// The types of flags. Their UnmarshalText says what is wrong with a value and
// what would be right; kong puts the flag's name in front.

// Revision is an MPA revision.
type Revision int

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Revision) UnmarshalText(b []byte) error {
	switch s := string(b); s {
	case "1", "2":
		*r = Revision(s[0] - '0')
		return nil
	default:
		return fmt.Errorf("%q is no revision of MPA: 1 (RFC 5044) or 2 (RFC 6581)", s)
	}
}

// OnOff is a switch that is spelt out. It is no bool, for which kong would make
// the value optional.
type OnOff string

// The values of OnOff.
const (
	On  OnOff = "on"
	Off OnOff = "off"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *OnOff) UnmarshalText(b []byte) error {
	switch v := OnOff(b); v {
	case On, Off:
		*o = v
		return nil
	default:
		return fmt.Errorf("%q: on or off", v)
	}
}

// RTRSet is a set of RTR kinds as iwarp.Config takes it.
type RTRSet iwarp.RTR

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *RTRSet) UnmarshalText(b []byte) error {
	if string(b) == "none" {
		*r = RTRSet(iwarp.RTRNone)
		return nil
	}
	var set iwarp.RTR
	for kind := range strings.SplitSeq(string(b), ",") {
		switch kind {
		case "write":
			set |= iwarp.RTRWrite
		case "read":
			set |= iwarp.RTRRead
		case "send":
			set |= iwarp.RTRSend
		default:
			return fmt.Errorf("%q: a list of write, read and send with commas between, or none (RFC 6581 section "+
				"9.2); %q is none of them",
				b, kind)
		}
	}
	*r = RTRSet(set)
	return nil
}

// Flag returns the set as the flag takes it.
func (r RTRSet) Flag() string {
	var kinds []string
	for _, k := range []struct {
		bit  iwarp.RTR
		name string
	}{{iwarp.RTRWrite, "write"}, {iwarp.RTRRead, "read"}, {iwarp.RTRSend, "send"}} {
		if iwarp.RTR(r)&k.bit != 0 {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, ",")
}

// maxDepth is the largest IRD or ORD that two ends can agree on.
const maxDepth = iwarp.NotNegotiated - 1

// Depth is an IRD or ORD as iwarp.Config takes it: 0 is the default, and
// iwarp.NoReads means none.
type Depth int

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Depth) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 0 || n > iwarp.NotNegotiated {
		return fmt.Errorf("%q: a number from 0 to %d, or %d to leave it out of the negotiation (RFC 6581 section 9.1)",
			b, maxDepth, iwarp.NotNegotiated)
	}
	*d = Depth(n)
	if n == 0 {
		*d = iwarp.NoReads
	}
	return nil
}

// hexOctets are octets written in hexadecimal digits.
type hexOctets []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexOctets) UnmarshalText(b []byte) error {
	v, err := hex.DecodeString(string(b))
	if err != nil {
		return fmt.Errorf("%q: octets of two hexadecimal digits each, without spaces", b)
	}
	*h = v
	return nil
}

// FpduMax is a bound of FPDUs in octets, 0 for none.
type FpduMax int

// The smallest FPDU bound holds the smallest MULPDU that RFC 5044 section 3 allows,
// 128 octets, and the largest the largest ULPDU, 64768.
const minFPDUMax, maxFPDUMax = 136, 64776

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *FpduMax) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n != 0 && (n < minFPDUMax || n > maxFPDUMax) {
		return fmt.Errorf("%q: 0, or octets from %d to %d (RFC 5044 section 3)", b, minFPDUMax, maxFPDUMax)
	}
	*f = FpduMax(n)
	return nil
}

// Align is how hard to work for the alignment of FPDUs with TCP segments.
type Align mpa.Align

// alignNames are the values of --align.
var alignNames = [...]string{
	mpa.AlignAuto: "auto", mpa.AlignOff: "off", mpa.AlignSegments: "segments", mpa.AlignStrict: "strict",
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Align) UnmarshalText(b []byte) error {
	i := slices.Index(alignNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("%q: auto, off, segments or strict", b)
	}
	*a = Align(i)
	return nil
}

// String returns the flag's value.
func (a Align) String() string { return alignNames[a] }

// AlignedShare says how many of so many FPDUs are aligned.
func AlignedShare(aligned, fpdus uint64) string {
	if fpdus == 0 {
		return "no FPDUs sent"
	}
	return fmt.Sprintf("%.1f %% of %s aligned", 100*float64(aligned)/float64(fpdus), Plural(fpdus, "FPDU"))
}

// Wait is a duration to wait.
type Wait time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wait) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: a duration above 0, such as 500ms or 10s", b)
	}
	*w = Wait(d)
	return nil
}

// Octets is a size of at least 1. It fits the 32 bits that the peer is told, and
// an int.
type Octets int

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Octets) UnmarshalText(b []byte) error {
	s := strings.TrimSuffix(string(b), "iB")
	shift := 0
	if s != "" {
		if i := strings.IndexByte("KMG", s[len(s)-1]); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 32)
	const limit uint64 = min(math.MaxUint32, math.MaxInt)
	if err != nil || n < 1 || n<<shift > limit || strings.HasSuffix(string(b), "iB") && shift == 0 {
		return fmt.Errorf("%q: octets from 1 to %d, as a number or with K, M or G behind it for 1024, 1024² or 1024³",
			b, limit)
	}
	*o = Octets(n << shift)
	return nil
}

// defaultPort is rping's.
const defaultPort = "7174"

// Address is a host and port; a lone host gets the default port.
type Address string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "" { // a variable of a script that is not set, as likely as not
		return errors.New("the address is empty: HOST, HOST:PORT, or :PORT for every address of this host")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return fmt.Errorf("%q: HOST:PORT, with the host in brackets if it has colons", s)
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port is a number from 0 to 65535", s)
	}
	*a = Address(net.JoinHostPort(host, port))
	return nil
}
