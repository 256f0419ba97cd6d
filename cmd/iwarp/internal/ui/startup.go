package ui

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/mpa"
)

// startupGroup is the heading of startupFlags in the help.
var startupGroup = kong.Group{
	Key:         "startup",
	Title:       "Startup: how to talk to the peer",
	Description: "The same in every command. What is agreed on depends on the peer too, and is shown.",
}

// accessGroup is the heading of the flags that say who may do what.
var accessGroup = kong.Group{
	Key:         "access",
	Title:       "Access: how the two ends know each other",
	Description: "On loopback nothing of it is needed.",
}

// StartupFlags are the settings of an iWARP connection. Every command that makes
// one embeds them.
type StartupFlags struct {
	Rev     Revision  `group:"startup" default:"2" placeholder:"1|2" help:"Revision of MPA: 2 (RFC 6581, the default), or 1 (RFC 5044). A client that asks for 2 falls back to 1 where the peer closes at that."`
	CRC     OnOff     `group:"startup" name:"crc" default:"on" placeholder:"on|off" help:"CRC32c on each frame (default on). With off this end does without where the peer does too: your decision as the administrator (RFC 5044 section 4.4), for a path that is protected otherwise."`
	Markers bool      `group:"startup" help:"Ask the peer to insert Markers into what it sends. Linux siw refuses that."`
	RTR     RTRSet    `group:"startup" name:"rtr" default:"write,read" placeholder:"write,read,send|none" help:"Kinds of Ready To Receive message that this end supports on a peer-to-peer connection (default write,read); none for a client-server connection."`
	IRD     Depth     `group:"startup" name:"ird" placeholder:"N" help:"RDMA Reads that this end serves at once (default 128; 16383 is left out of the negotiation)."`
	ORD     Depth     `group:"startup" name:"ord" placeholder:"N" help:"RDMA Reads that this end has under way at once (default 128, or 1 where the peer says nothing)."`
	Private hexOctets `group:"startup" placeholder:"HEX" help:"Private data for the peer's program: at most 508 octets, 512 with --rev 1."`
	FPDUMax FpduMax   `group:"startup" name:"fpdu-max" placeholder:"N" help:"Largest frame (FPDU) to send, in octets: 136 to 64776. Default: what fits a TCP segment, and at most 32 KiB."`
	Align   Align     `group:"startup" default:"auto" placeholder:"auto|off|segments|strict" help:"How hard to work for frames that start where TCP segments do, which spares a hardware peer work: auto, where that costs next to nothing (default); off; segments, wherever it can be done; strict, a TCP segment for each frame. Linux only."`
	Timeout Wait      `group:"startup" default:"10s" placeholder:"D" help:"How long to wait for the peer, at startup and at each step (default 10s)."`
	Record  string    `group:"startup" placeholder:"FILE" help:"Record all traffic in FILE, as pcapng, for \"iwarp inspect\" or Wireshark. It slows down: do not measure with it."`

	recording recording
}

// Lengths of private data (RFC 5044 section 7.1.1, RFC 6581 section 9).
const maxPrivateRev1, maxPrivateRev2 = 512, 508

// Check applies the rules that concern several flags.
func (f *StartupFlags) Check() error {
	limit := maxPrivateRev2
	if f.Rev == 1 {
		limit = maxPrivateRev1
	}
	if len(f.Private) > limit {
		return fmt.Errorf("--private: %d octets: at most %d with --rev %d (RFC 5044 section 7.1.1, RFC 6581 section 9)",
			len(f.Private), limit, f.Rev)
	}
	return nil
}

// Patience is how long to wait for the peer.
func (f *StartupFlags) Patience() time.Duration { return time.Duration(f.Timeout) }

// maxCloseTime bounds how long a connection that has done its work waits for the
// peer to close, so that a command ends soon.
const maxCloseTime = 2 * time.Second

// Announce says on stderr what the administrator should know to have decided.
func (f *StartupFlags) Announce(out *Output) {
	if f.CRC == Off {
		out.Note("--crc off: this end does without CRC32c if the peer does too; corrupt octets would then go unseen " +
			"unless something else on the path protects them (RFC 5044 section 4.4)")
	}
}

// NewDevice makes a device that allows what the flags ask for.
func NewDevice(crc OnOff, depths ...Depth) (*iwarp.Device, error) {
	dc := &iwarp.DeviceConfig{}
	for _, d := range depths {
		if d <= maxDepth {
			dc.MaxRead = max(dc.MaxRead, int(d), 1024)
		}
	}
	if crc == Off {
		dc.CRCSuppression = &iwarp.CRCSuppression{Protection: "what the administrator who said --crc off relies on"}
	}
	return iwarp.NewDevice(dc)
}

// Config makes the configuration of connections, with a device of their own.
func (f *StartupFlags) Config() (*iwarp.Config, error) {
	dev, err := NewDevice(f.CRC, f.IRD, f.ORD)
	if err != nil {
		return nil, err
	}
	cfg := &iwarp.Config{
		Device: dev, PrivateData: f.Private, IRD: int(f.IRD), ORD: int(f.ORD),
		MPA: iwarp.MPAConfig{
			Revision: int(f.Rev), Markers: f.Markers, RTR: iwarp.RTR(f.RTR), FPDUMax: int(f.FPDUMax),
			Align: mpa.Align(f.Align),
		},
		StartupTimeout: f.Patience(), CloseTimeout: min(f.Patience(), maxCloseTime),
	}
	if f.Record != "" {
		return cfg, f.recording.start(f.Record, cfg)
	}
	return cfg, nil
}
