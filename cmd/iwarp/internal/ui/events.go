package ui

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

const kindError = "error"

// ErrorEvent is something that went wrong: the command line, the run, or, at a
// server, one connection.
type ErrorEvent struct {
	Error string `json:"error"`
	// Peer is the address of the connection, if it is one's error.
	Peer string `json:"peer,omitempty"`
	// Cause is the name of what went wrong, if it has one: see causeOfError.
	Cause string `json:"cause,omitempty"`
	// Code is layer/type/code of an error that the RFCs number, FoundBy the end
	// that found it, and Echoed our header that the peer's Terminate echoed.
	Code    string `json:"code,omitempty"`
	FoundBy string `json:"found_by,omitempty"`
	Echoed  string `json:"echoed_header,omitempty"`
	// PrivateData is what came with a rejection, in hex.
	PrivateData string `json:"private_data,omitempty"`
	// ExitCode is there if the error ends the command.
	ExitCode int `json:"exit_code,omitempty"`
}

// NewErrorEvent takes err apart.
func NewErrorEvent(err error) ErrorEvent {
	e := ErrorEvent{Error: strings.TrimPrefix(err.Error(), "iwarp: ")}
	var misleads bool
	e.Cause, misleads = causeOfError(err)
	var perr *iwarp.ProtocolError
	if errors.As(err, &perr) && !misleads {
		e.Code = codeNumbers(perr)
		e.FoundBy = "local"
		if perr.Remote {
			e.FoundBy = "peer"
			e.Echoed = Echoed(perr)
		}
	}
	var rej *iwarp.RejectError
	if errors.As(err, &rej) {
		e.PrivateData = hex.EncodeToString(rej.PrivateData)
	}
	return e
}

// causeOfError names what went wrong, for programs. misleads says that a number of the
// RFCs in the error would: it tells only what this end made of it.
func causeOfError(err error) (name string, misleads bool) {
	for _, c := range [...]struct {
		is       error
		name     string
		misleads bool
	}{
		{iwarp.ErrClientFirst, "client_first", true},
		{iwarp.ErrPeerSilent, "peer_silent", true},
		{iwarp.ErrStartupTimeout, "startup_timeout", true},
		{iwarp.ErrStartupClosed, "startup_closed", false},
		{os.ErrDeadlineExceeded, "timeout", true},
		{context.DeadlineExceeded, "timeout", true},
		{context.Canceled, "interrupted", true},
		{errors.ErrUnsupported, "unsupported", false},
	} {
		if errors.Is(err, c.is) {
			return c.name, c.misleads
		}
	}
	if rejected := (*iwarp.RejectError)(nil); errors.As(err, &rejected) {
		return "rejected", false
	}
	return "", false
}

// EventKind implements Event.
func (e ErrorEvent) EventKind() string { return kindError }

// Text implements Event.
func (e ErrorEvent) Text() string {
	s := e.Error
	if e.PrivateData != "" {
		s += "; its private data: " + e.PrivateData
	}
	if e.Peer != "" {
		return fmt.Sprintf("%s: error: %s", e.Peer, s)
	}
	return "iwarp: " + s
}

// codeNumbers returns layer/type/code as Terminate messages are usually quoted.
func codeNumbers(e *iwarp.ProtocolError) string {
	return fmt.Sprintf("%d/%d/%02x", e.Code.Layer(), e.Code.Type(), e.Code.Number())
}

// Echoed returns the header that a Terminate echoed in words, "" if there is none.
func Echoed(e *iwarp.ProtocolError) string {
	if e.Offender == nil {
		return ""
	}
	h, _, err := ddp.Parse(e.Offender.DDPHeader)
	if err != nil {
		return ""
	}
	s := rdmap.Control(h.Control).Opcode().String()
	if h.Tagged {
		s += fmt.Sprintf(" to STag %v, Tagged Offset %d", h.STag, h.TO)
	} else {
		s += fmt.Sprintf(" on queue %d, message %d, offset %d", h.QN, h.MSN, h.MO)
	}
	if r, _, err := rdmap.ParseReadRequest(e.Offender.RDMAPHeader); err == nil {
		s += fmt.Sprintf(", of %d octets from STag %v, Tagged Offset %d", r.Size, r.SrcSTag, r.SrcTO)
	}
	if h.Last {
		s += ", last segment"
	}
	return s
}

// connectedEvent tells what two ends agreed on.
type connectedEvent struct {
	Local       string `json:"local"`
	Peer        string `json:"peer"`
	Initiator   bool   `json:"initiator"`
	Revision    int    `json:"revision"`
	CRC         bool   `json:"crc"`
	SendMarkers bool   `json:"send_markers"`
	RecvMarkers bool   `json:"recv_markers"`
	PeerToPeer  bool   `json:"peer_to_peer"`
	RTR         string `json:"rtr"`
	IRD         int    `json:"ird"`
	ORD         int    `json:"ord"`
	PeerIRD     int    `json:"peer_ird"`
	PeerORD     int    `json:"peer_ord"`
	MULPDU      int    `json:"mulpdu"`
	PrivateData string `json:"private_data"`
}

// NewConnectedEvent describes c.
func NewConnectedEvent(c *iwarp.Conn) connectedEvent {
	s := c.ConnectionState()
	return connectedEvent{
		Local: c.LocalAddr().String(), Peer: c.RemoteAddr().String(), Initiator: s.Initiator,
		Revision: int(s.Revision), CRC: s.CRC, SendMarkers: s.SendMarkers, RecvMarkers: s.RecvMarkers,
		PeerToPeer: s.PeerToPeer, RTR: s.RTR.String(), IRD: s.IRD, ORD: s.ORD, PeerIRD: s.PeerIRD, PeerORD: s.PeerORD,
		MULPDU: c.Stats().MULPDU, PrivateData: hex.EncodeToString(s.PrivateData),
	}
}

func (e connectedEvent) EventKind() string { return "connected" }

func (e connectedEvent) Text() string {
	parts := []string{fmt.Sprintf("MPA revision %d", e.Revision), "CRC " + Word(e.CRC, "on", "off")}
	switch {
	case e.SendMarkers && e.RecvMarkers:
		parts = append(parts, "Markers both ways")
	case e.SendMarkers:
		parts = append(parts, "Markers in what we send")
	case e.RecvMarkers:
		parts = append(parts, "Markers in what we receive")
	default:
		parts = append(parts, "no Markers")
	}
	parts = append(parts, Word(e.PeerToPeer, "peer-to-peer by "+e.RTR, "client-server"),
		fmt.Sprintf("IRD %d ORD %d", e.IRD, e.ORD), fmt.Sprintf("segments up to %d octets", e.MULPDU))
	if e.PrivateData != "" {
		parts = append(parts, "private data "+e.PrivateData)
	}
	s := strings.Join(parts, ", ")
	if e.Initiator {
		return fmt.Sprintf("connected to %s: %s", e.Peer, s)
	}
	return fmt.Sprintf("%s: connected: %s", e.Peer, s)
}
