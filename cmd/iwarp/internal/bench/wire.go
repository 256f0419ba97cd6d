package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/pages"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// What the two ends of a bench say to each other. Every TCP connection to a server
// begins with a preface of 16 octets:
//
//	"IWB1", what it is ('C' control, 'I' iWARP, 'T' plain TCP), 3 octets of zero,
//	the token of the session, 4 octets, and which of its connections it is, 4 octets
//
// The control connection goes on with requests and replies in JSON, the others with
// what they are.
const prefaceLen = 16

type preface struct {
	kind         linkKind
	token, index uint32
}

// linkKind says what a connection is.
type linkKind byte

const (
	linkControl linkKind = 'C'
	linkIWARP   linkKind = 'I'
	linkTCP     linkKind = 'T'
)

// String names what is measured.
func (k linkKind) String() string {
	if k == linkTCP {
		return "plain TCP"
	}
	return "iWARP"
}

func (p preface) write(w io.Writer) error {
	b := append([]byte("IWB1"), byte(p.kind), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, p.token)
	b = binary.BigEndian.AppendUint32(b, p.index)
	_, err := w.Write(b)
	return err
}

func readPreface(r io.Reader) (preface, error) {
	var b [prefaceLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return preface{}, fmt.Errorf("preface of bench: %w", err)
	}
	if string(b[:4]) != "IWB1" {
		return preface{}, fmt.Errorf("preface of bench is %q: the other end is no \"iwarp bench\" of this version",
			b[:4])
	}
	switch kind := linkKind(b[4]); kind {
	case linkControl, linkIWARP, linkTCP:
	default:
		return preface{}, fmt.Errorf("preface of bench has the kind %q: C, I or T", byte(kind))
	}
	return preface{linkKind(b[4]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}, nil
}

// benchSpec is what both ends must know of the work.
type benchSpec struct {
	Op         benchOp      `json:"op"`
	Size       int          `json:"size"`
	Depth      int          `json:"depth"`
	Conns      int          `json:"conns"`
	Bidi       bool         `json:"bidi"`
	Lat        bool         `json:"lat"`
	Progress   progressMode `json:"progress"`
	Congestion string       `json:"congestion"`
	HugePages  bool         `json:"huge_pages"`
	Buffered   bool         `json:"buffered"`
}

// maxHugeConns is for how many connections a server takes huge pages: a MiB takes
// up to four there.
const maxHugeConns = 16

// memory returns n octets for messages, and says whether they lie in huge pages.
func (s *benchSpec) memory(n int) ([]byte, bool) {
	if !s.HugePages || s.Conns > maxHugeConns {
		return make([]byte, n), false
	}
	return pages.Huge(n)
}

// check refuses what no client of this version asks for.
func (s *benchSpec) check(kind linkKind) error {
	switch {
	case kind != linkIWARP && kind != linkTCP:
		return fmt.Errorf("connections of kind %d: %q and %q are known", kind, byte(linkIWARP), byte(linkTCP))
	case !slices.Contains(benchOps, s.Op):
		return fmt.Errorf("operation %.20q: write, read, send, notify or atomic", s.Op)
	case s.Op == opAtomic && s.Size != atomicOctets:
		return fmt.Errorf("atomics of %d octets: of %d", s.Size, atomicOctets)
	case s.Size < 1 || s.Size > maxBenchOctets:
		return fmt.Errorf("size %d: from 1 to %d octets", s.Size, maxBenchOctets)
	case s.Depth < 1 || s.Depth > maxBenchDepth:
		return fmt.Errorf("depth %d: from 1 to %d", s.Depth, maxBenchDepth)
	case s.Conns < 1 || s.Conns > maxBenchConns:
		return fmt.Errorf("%d connections: from 1 to %d", s.Conns, maxBenchConns)
	case s.Congestion != "" && !knownCongestion(s.Congestion):
		return fmt.Errorf("congestion control %.20q: not known here", s.Congestion)
	}
	return nil
}

// What the memory of an end consists of, at most.
const (
	workCost     = 640       // of a work request, with its completion and all that is prepared for it
	connCost     = 768 << 10 // of a connection, without work requests and messages
	hugePageCost = 8 << 20   // of two buffers' alignment
)

// cost is about how many octets of memory an end takes for the work, at most.
func (s *benchSpec) cost(kind linkKind) int64 {
	size, n := int64(s.Size), int64(connCost)
	if kind == linkTCP {
		n += max(size, tcpSource) + max(size, baselineRead) + baselineBuffer
	} else {
		sends, receives := s.queues()
		n += 2*size + int64(sends+receives)*workCost
	}
	if s.HugePages && s.Conns <= maxHugeConns && (kind == linkTCP || size >= 128<<10) {
		n += hugePageCost
	}
	return n * int64(s.Conns)
}

// Many connections have little memory each, as a server for so many would give them.
const (
	manyConns    = 64       // more are many
	maxManyDepth = 8 << 10  // operations under way on all of them, by default
	manyRead     = 64 << 20 // octets of all receive buffers of the baseline
)

func (s *benchSpec) many() bool { return s.Conns > manyConns }

// queues returns the depths of a connection's send and receive queue.
func (s *benchSpec) queues() (sends, receives int) {
	receives, per := immReserve, 1
	if s.Op == opSend || s.Op == opNotify {
		least := 64
		if s.many() {
			least = 4
		}
		receives += min(max(4*s.Depth, least), 8192)
	}
	if s.Op == opNotify {
		per = 2
	}
	return s.Depth*per + 2*immReserve, receives
}

// What a client asks of a server.
const (
	doHello     = "hello"     // gives the machine
	doOpen      = "open"      // gives a token for the connections that follow
	doConnected = "connected" // the connections are there: exchanges regions
	doStart     = "start"     // a sample of so many messages begins
	doStop      = "stop"      // waits for its end, and gives what it has used
	doClose     = "close"     // the connections of a kind are not needed any more
	doMemory    = "memory"    // gives the memory that is in use
)

// benchMsg is a request or a reply; each uses some of the fields.
type benchMsg struct {
	Do      string               `json:"do,omitempty"`
	Error   string               `json:"error,omitempty"`
	Kind    linkKind             `json:"kind,omitempty"`
	Spec    *benchSpec           `json:"spec,omitempty"`
	Token   uint32               `json:"token,omitempty"`
	Regions []iwarp.RemoteBuffer `json:"regions,omitempty"`
	Count   uint64               `json:"count,omitempty"`
	Machine *machine             `json:"machine,omitempty"`
	Usage   benchUsage           `json:"usage"`
}

// benchUsage is what one end has used during a sample.
type benchUsage struct {
	CPU    time.Duration `json:"cpu_ns"`
	Allocs uint64        `json:"allocs"`
	Calls  uint64        `json:"calls"`
	FPDUs  uint64        `json:"fpdus"`   // sent
	Whole  uint64        `json:"aligned"` // of them, in one TCP segment
	Memory uint64        `json:"memory"`  // octets in use, when asked
}

func (u benchUsage) plus(v benchUsage) benchUsage {
	return benchUsage{
		u.CPU + v.CPU, u.Allocs + v.Allocs, u.Calls + v.Calls, u.FPDUs + v.FPDUs, u.Whole + v.Whole,
		u.Memory + v.Memory,
	}
}

// maxUsageCPU is more processor time than any sample takes; with that of this end it is still a number.
const maxUsageCPU = 1000 * time.Hour

// clean makes what the other end has said fit to be shown: without what would
// control a terminal, not longer than anybody reads, and no processor time below zero.
func (m *benchMsg) clean() {
	m.Error = shown(m.Error, 1000)
	m.Usage.CPU = min(max(m.Usage.CPU, 0), maxUsageCPU)
	p := m.Machine
	if p == nil {
		return
	}
	for _, s := range []*string{&p.Go, &p.OS, &p.Arch, &p.Processor, &p.Kernel} {
		*s = shown(*s, 200)
	}
	p.Features = p.Features[:min(len(p.Features), 64)]
	for i := range p.Features {
		p.Features[i] = shown(p.Features[i], 50)
	}
}

// shown is printable that cuts what is longer than most octets.
func shown(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return ui.Printable(s)
}

// control is an end of the control connection. A message is a line.
type control struct {
	nc      net.Conn
	enc     *json.Encoder
	r       *bufio.Reader
	most    int // octets of a message of the other end's
	timeout time.Duration
}

// Lengths of a message in octets: at all, and of each region in it.
const controlOctets, regionOctets = 16 << 10, 96

func newControl(nc net.Conn, timeout time.Duration) *control {
	return &control{nc, json.NewEncoder(nc), bufio.NewReader(nc), controlOctets, timeout}
}

// expect lets messages be long enough for the regions of so many connections.
func (c *control) expect(conns int) {
	c.most = max(c.most, controlOctets+regionOctets*conns)
}

// write sends a message. It waits for the other end no longer than the timeout.
func (c *control) write(m *benchMsg) error {
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.timeout))
	return c.enc.Encode(m)
}

// read takes the next message. How long it waits is the deadline's business.
func (c *control) read(m *benchMsg) error {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		if len(line)+len(part) > c.most {
			return fmt.Errorf("a control message of more than %d octets", c.most)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		default:
			err := json.Unmarshal(line, m)
			m.clean()
			return err
		}
	}
}

// ask sends a request and waits for the reply.
func (c *control) ask(ctx context.Context, m benchMsg) (benchMsg, error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.timeout))
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var reply benchMsg
	if err := c.write(&m); err != nil {
		return reply, fmt.Errorf("%s: %w", m.Do, ui.CauseOf(ctx, err))
	}
	if err := c.read(&reply); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			return reply, fmt.Errorf("%s: no reply of the other end within %v", m.Do, c.timeout)
		}
		return reply, fmt.Errorf("%s: no reply of the other end: %w", m.Do, ui.CauseOf(ctx, err))
	}
	if reply.Error != "" {
		return reply, fmt.Errorf("the other end: %s", reply.Error)
	}
	return reply, nil
}

// knownCongestion reports whether the other end may ask for a congestion control:
// where a name is not known, Linux looks for a module of the kernel that has it.
func knownCongestion(name string) bool {
	return slices.Contains([]string{"bbr", "cubic", "reno"}, name)
}

// setCongestion sets want, or one that does not pace if want is "", and returns what
// the socket has then: "" where nobody can tell.
func setCongestion(nc net.Conn, want string) string {
	if want == "" {
		return tcpsock.SetUnpaced(nc)
	}
	return tcpsock.SetNamed(nc, want)
}
