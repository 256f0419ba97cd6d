// Package live shows the connections of a running program to "iwarp top", and to whoever else
// asks: which peers there are, how much goes to and fro, how earlier ones ended.
//
// A program opts in, in one of two ways. [Offer] opens a Unix-domain socket that only the
// program's own user (and root) can connect to, and that is found by the number of the process:
//
//	device, err := iwarp.NewDevice(nil)
//	...
//	offer, err := live.Offer(device) // then: iwarp top PID
//	...
//	defer offer.Close()
//	listener, err := iwarp.Listen("tcp", ":7174", &iwarp.Config{Device: device})
//
// [Handler] is for a program that has an HTTP server for its operators:
//
//	http.Handle(live.Endpoint, live.Handler(device)) // then: iwarp top HOST:PORT
//
// Either needs the [iwarp.Device] that the connections are of: without Config.Device each
// Listen and Dial makes one of its own. What is told are counters and the addresses of peers,
// no octet that they send. It is collected when somebody asks, and costs the connections
// nothing before.
package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Format is what Snapshot.Format says.
const Format = "iwarp-live/1"

// Endpoint is the path at which Offer serves, and at which "iwarp top HOST:PORT" looks.
const Endpoint = "/debug/iwarp"

// MaxConns is how many connections a snapshot has at most.
const MaxConns = 10_000

// Snapshot is what a program tells of its connections, as JSON.
type Snapshot struct {
	Format  string    `json:"format"`
	PID     int       `json:"pid"`
	Program string    `json:"program"` // the name of its executable
	Time    time.Time `json:"time"`
	Totals  Totals    `json:"totals"` // of all devices together
	Errors  []Errors  `json:"errors"` // how connections ended in error, the most frequent first
	// Conns are the connections that stand, by ID. Of more than MaxConns those that have carried
	// most are here, and LeftOut counts the others.
	Conns   []Conn `json:"conns"`
	LeftOut int    `json:"left_out"`
}

// Totals are those of [iwarp.DeviceTotals].
type Totals struct {
	Live            int    `json:"live"`
	Connections     uint64 `json:"connections"`
	EndedGracefully uint64 `json:"ended_gracefully"`
	EndedInError    uint64 `json:"ended_in_error"`
	StartupsFailed  uint64 `json:"startups_failed"`
	StartupsRefused uint64 `json:"startups_refused"`
	Traffic
}

// Traffic counts what has gone to and fro.
type Traffic struct {
	MessagesSent     uint64 `json:"messages_sent"` // DDP messages of any kind
	MessagesReceived uint64 `json:"messages_received"`
	PayloadSent      uint64 `json:"payload_sent"` // octets of ULP payload
	PayloadReceived  uint64 `json:"payload_received"`
	ReadsServed      uint64 `json:"reads_served"`
	AtomicsServed    uint64 `json:"atomics_served"`
}

// Errors counts connections that ended in the same error: see [iwarp.ErrorKind].
type Errors struct {
	Code  string `json:"code"` // layer, type and number, as in "1/1/00" (RFC 5040 section 4.8)
	By    string `json:"by"`   // who found it: "here", "peer", or "program" for an abort
	Count uint64 `json:"count"`
}

// Conn is a connection that stands.
type Conn struct {
	ID          uint64    `json:"id"` // as "conn" in the log
	Local       string    `json:"local"`
	Remote      string    `json:"remote"`
	Initiator   bool      `json:"initiator"` // this end dialed
	Began       time.Time `json:"began"`
	FPDUsSent   uint64    `json:"fpdus_sent"` // 0 over another LLP than MPA, as the next
	FPDUsRecv   uint64    `json:"fpdus_received"`
	Retransmits uint64    `json:"retransmits"` // TCP segments, where the operating system tells
	MULPDU      int       `json:"mulpdu"`
	Traffic
}

// Take returns what a handler of these devices tells at the moment. It takes the time of
// [iwarp.Conn.Stats] for each connection.
func Take(devices ...*iwarp.Device) *Snapshot {
	s := &Snapshot{Format: Format, PID: os.Getpid(), Time: time.Now(), Errors: []Errors{}, Conns: []Conn{}}
	if exe, err := os.Executable(); err == nil {
		s.Program = filepath.Base(exe)
	}
	for _, d := range devices {
		if d != nil {
			s.add(d)
		}
	}
	slices.SortFunc(s.Errors, func(a, b Errors) int { return cmp.Compare(b.Count, a.Count) })
	if len(s.Conns) > MaxConns {
		s.LeftOut = len(s.Conns) - MaxConns
		slices.SortFunc(s.Conns, func(a, b Conn) int {
			return cmp.Compare(b.PayloadSent+b.PayloadReceived, a.PayloadSent+a.PayloadReceived)
		})
		s.Conns = s.Conns[:MaxConns]
	}
	slices.SortFunc(s.Conns, func(a, b Conn) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

func (s *Snapshot) add(d *iwarp.Device) {
	t := d.Totals()
	s.Totals.Live += t.Live
	s.Totals.Connections += t.Connections
	s.Totals.EndedGracefully += t.EndedGracefully
	s.Totals.EndedInError += t.EndedInError
	s.Totals.StartupsFailed += t.StartupsFailed
	s.Totals.StartupsRefused += t.StartupsRefused
	s.Totals.MessagesSent += t.MessagesSent
	s.Totals.MessagesReceived += t.MessagesReceived
	s.Totals.PayloadSent += t.PayloadSent
	s.Totals.PayloadReceived += t.PayloadReceived
	s.Totals.ReadsServed += t.ReadsServed
	s.Totals.AtomicsServed += t.AtomicsServed
	for kind, n := range t.Errors {
		s.addError(kind, n)
	}
	for _, c := range d.Conns() {
		st, state := c.Stats(), c.ConnectionState()
		s.Conns = append(s.Conns, Conn{
			ID: c.ID(), Local: text(c.LocalAddr()), Remote: text(c.RemoteAddr()), Initiator: state.Initiator,
			Began: c.Began(), FPDUsSent: st.MPA.FPDUsSent, FPDUsRecv: st.MPA.FPDUsReceived,
			Retransmits: st.MPA.Retransmits, MULPDU: st.MULPDU,
			Traffic: Traffic{
				MessagesSent: st.RDMAP.MessagesSent, MessagesReceived: st.RDMAP.MessagesReceived,
				PayloadSent: st.RDMAP.PayloadSent, PayloadReceived: st.RDMAP.PayloadReceived,
				ReadsServed: st.RDMAP.ReadsServed, AtomicsServed: st.RDMAP.AtomicsServed,
			},
		})
	}
}

func (s *Snapshot) addError(kind iwarp.ErrorKind, n uint64) {
	e := Errors{Code: codeOf(kind), By: "here", Count: n}
	switch {
	case kind.Own:
		e.By = "program"
	case kind.Remote:
		e.By = "peer"
	}
	for i := range s.Errors {
		if had := &s.Errors[i]; had.Code == e.Code && had.By == e.By {
			had.Count += n
			return
		}
	}
	s.Errors = append(s.Errors, e)
}

// codeOf writes a code as the RFCs' tables do.
func codeOf(k iwarp.ErrorKind) string {
	return fmt.Sprintf("%d/%d/%02x", uint8(k.Code.Layer()), k.Code.Type(), k.Code.Number())
}

func text(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// Handler answers GET with a [Snapshot] of these devices, wherever it is mounted. It has no
// access control of its own: mount it where the program's other internals are.
func Handler(devices ...*iwarp.Device) http.Handler {
	devices = slices.Clone(devices)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		b, err := json.Marshal(Take(devices...))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Length", strconv.Itoa(len(b)+1))
		_, _ = w.Write(append(b, '\n'))
	})
}
