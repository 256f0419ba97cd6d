package analysis_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// sight is what a judge saw of one direction of a connection.
type sight struct {
	startup  []frame
	messages []message
	segments int
	good     int // CRCs
	bad      int
	trouble  []string // malformed, undissected, out of place
	open     message  // segments of a message whose last one has not come
	isOpen   bool
}

// segment adds a DDP segment to the messages.
func (s *sight) segment(m message, last bool) {
	s.segments++
	if s.isOpen {
		if s.open.op != m.op {
			s.trouble = append(s.trouble, fmt.Sprintf("segment of %v inside of %v", m, s.open))
		}
		m.length += s.open.length
	}
	s.open, s.isOpen = m, !last
	if last {
		s.messages = append(s.messages, m)
	}
}

// field is an element of tshark's PDML, which is a tree of fields.
type field struct {
	XMLName xml.Name
	Name    string  `xml:"name,attr"`
	Show    string  `xml:"show,attr"`
	Full    string  `xml:"showname,attr"`
	Fields  []field `xml:",any"`
}

// find returns the first field of that name in the tree.
func (f *field) find(name string) *field {
	if f.Name == name {
		return f
	}
	for i := range f.Fields {
		if g := f.Fields[i].find(name); g != nil {
			return g
		}
	}
	return nil
}

// number returns the value of the first of the fields that is there, or -1.
func (f *field) number(names ...string) int {
	for _, name := range names {
		if g := f.find(name); g != nil {
			n, err := strconv.ParseInt(g.Show, 0, 64)
			if err == nil {
				return int(n)
			}
			switch g.Show {
			case "True":
				return 1
			case "False":
				return 0
			}
		}
	}
	return -1
}

// needTshark skips the test where there is no tshark.
func needTshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no second judge: tshark is not installed (Debian, Ubuntu: apt-get install tshark)")
	}
	return path
}

// askTshark has tshark dissect a capture and gives what it saw, by the ports of the
// two ends: from and to.
func askTshark(t *testing.T, path, file string) map[[2]int]*sight {
	t.Helper()
	// Heuristics first: the ports are those that the system gave, and some are
	// another protocol's to tshark.
	cmd := exec.CommandContext(t.Context(), path, "-r", file, "-n", "--disable-heuristic", "rpcrdma_iwarp",
		"-o", "tcp.try_heuristic_first:TRUE",
		"-Y", "iwarp_mpa or _ws.malformed", "-T", "pdml", "-J", "tcp iwarp_mpa iwarp_ddp_rdmap _ws.malformed")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int]*sight{}
	dec := xml.NewDecoder(out)
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("tshark's PDML: %v (%s)", err, stderr.String())
		}
		if start, ok := tok.(xml.StartElement); ok && start.Name.Local == "packet" {
			var packet field
			if err := dec.DecodeElement(&packet, &start); err != nil {
				t.Fatalf("tshark's PDML: %v (%s)", err, stderr.String())
			}
			readPDML(&packet, seen)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("tshark: %v: %s", err, stderr.String())
	}
	return seen
}

// readPDML adds what a packet shows.
func readPDML(packet *field, seen map[[2]int]*sight) {
	key := [2]int{packet.number("tcp.srcport"), packet.number("tcp.dstport")}
	s := seen[key]
	if s == nil {
		s = &sight{}
		seen[key] = s
	}
	number := packet.number("num")
	var fpdu *field
	for i := range packet.Fields {
		p := &packet.Fields[i]
		switch {
		case strings.HasPrefix(p.Name, "_ws.malformed"):
			s.trouble = append(s.trouble, fmt.Sprintf("frame %d: malformed", number))
		case p.Name == "iwarp_mpa":
			for _, name := range []string{"iwarp_mpa.req", "iwarp_mpa.rep"} {
				if f := p.find(name); f != nil {
					s.startup = append(s.startup, pdmlStartup(f))
				}
			}
			if p.find("iwarp_mpa.bad_length") != nil {
				s.trouble = append(s.trouble, fmt.Sprintf("frame %d: bad length", number))
			}
			if fpdu = p.find("iwarp_mpa.fpdu"); fpdu != nil {
				s.crc(fpdu, number)
			}
		case p.Name == "iwarp_ddp_rdmap":
			if fpdu == nil {
				s.trouble = append(s.trouble, fmt.Sprintf("frame %d: DDP without FPDU", number))
				continue
			}
			s.segment(pdmlSegment(p, fpdu.number("iwarp_mpa.ulpdulength")), p.number("iwarp_ddp.last_flag") == 1)
			fpdu = nil
		}
	}
}

func pdmlStartup(f *field) frame {
	return frame{
		markers: f.number("iwarp_mpa.marker_flag") == 1, crc: f.number("iwarp_mpa.crc_flag") == 1,
		reject: f.number("iwarp_mpa.rej_flag") == 1, rev: f.number("iwarp_mpa.rev"),
		private: f.number("iwarp_mpa.pdlength"),
	}
}

func (s *sight) crc(fpdu *field, number int) {
	check := fpdu.find("iwarp_mpa.crc_check")
	switch {
	case check == nil:
	case strings.Contains(check.Full, "Good CRC32"):
		s.good++
	default:
		s.bad++
		s.trouble = append(s.trouble, fmt.Sprintf("frame %d: %s", number, check.Full))
	}
}

// pdmlSegment returns the segment of a ULPDU of so many octets.
func pdmlSegment(p *field, ulpdu int) message {
	header := 18
	if p.number("iwarp_ddp.tagged_flag") == 1 {
		header = 14
	}
	m := message{op: p.number("iwarp_rdma.opcode"), length: ulpdu - header}
	if term := p.find("iwarp_rdma.terminate"); term != nil {
		m.code = uint16(term.number("iwarp_rdma.term_layer")<<12 |
			term.number("iwarp_rdma.term_etype_rdma", "iwarp_rdma.term_etype_ddp", "iwarp_rdma.term_etype_llp",
				"iwarp_rdma.term_etype")<<8 |
			term.number("iwarp_rdma.term_errcode_rdma", "iwarp_rdma.term_errcode_ddp_tagged",
				"iwarp_rdma.term_errcode_ddp_untagged",
				"iwarp_rdma.term_errcode_llp", "iwarp_rdma.term_errcode"))
	}
	return m
}
