package proxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// listeningEvent tells that connections can come.
type listeningEvent struct {
	Address string   `json:"address"`
	To      string   `json:"to"`
	Mode    string   `json:"mode"`
	Faults  []string `json:"faults"`
}

func (e listeningEvent) EventKind() string { return "listening" }

func (e listeningEvent) Text() string {
	s := fmt.Sprintf("listening on %s, a %s to %s", e.Address, e.Mode, e.To)
	if len(e.Faults) > 0 {
		s += ", with " + strings.Join(e.Faults, " and ")
	}
	return s + "; Ctrl-C ends it"
}

// connectedEvent tells that a connection stands.
type connectedEvent struct {
	Connection uint64 `json:"connection"`
	Peer       string `json:"peer"`
	To         string `json:"to"`
}

func (e connectedEvent) EventKind() string { return "connected" }

func (e connectedEvent) Text() string {
	return fmt.Sprintf("%d: %s: connected to %s", e.Connection, e.Peer, e.To)
}

// faultEvent tells that a fault happens.
type faultEvent struct {
	Connection uint64 `json:"connection"`
	Fault      string `json:"fault"`
	peer       string
}

func (e faultEvent) EventKind() string { return "fault" }

func (e faultEvent) Text() string {
	return fmt.Sprintf("%d: %s: fault: %s", e.Connection, e.peer, e.Fault)
}

// disconnectedEvent tells that a connection has ended.
type disconnectedEvent struct {
	Connection uint64        `json:"connection"`
	Peer       string        `json:"peer"`
	Sent       int64         `json:"octets_sent"`
	Received   int64         `json:"octets_received"`
	Faults     uint64        `json:"faults"`
	Duration   time.Duration `json:"duration_ns"`
	Error      string        `json:"error,omitempty"`
}

func (e disconnectedEvent) EventKind() string { return "disconnected" }

func (e disconnectedEvent) Text() string {
	s := fmt.Sprintf("%d: %s: ended after %v, sent %s, received %s", e.Connection, e.Peer, ui.Round(e.Duration),
		ui.Plural(uint64(e.Sent), "octet"), ui.Plural(uint64(e.Received), "octet"))
	if e.Error != "" {
		s += ": " + e.Error
	}
	return s
}

// stoppingEvent tells that no more connections are taken.
type stoppingEvent struct {
	Connections int           `json:"connections"`
	Grace       time.Duration `json:"grace_ns"`
}

func (e stoppingEvent) EventKind() string { return "stopping" }

func (e stoppingEvent) Text() string {
	return fmt.Sprintf("stopping: %s may go on for %v", ui.Plural(e.Connections, "connection"), e.Grace)
}

// summaryEvent is the last line.
type summaryEvent struct {
	Connections uint64 `json:"connections"`
	Failed      uint64 `json:"failed"`
	Sent        int64  `json:"octets_sent"`
	Received    int64  `json:"octets_received"`
	Faults      uint64 `json:"faults"`
}

func (e summaryEvent) EventKind() string { return "summary" }

func (e summaryEvent) Text() string {
	s := fmt.Sprintf("passed on %s (%d did not end in good order): %s there, %s back",
		ui.Plural(e.Connections, "connection"), e.Failed, ui.Amount(e.Sent), ui.Amount(e.Received))
	if e.Faults > 0 {
		s += ", " + ui.Plural(e.Faults, "fault")
	}
	return s
}
