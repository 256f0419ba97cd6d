package kit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// answerKind is what an endpoint can do in answer to what the kit has sent.
type answerKind uint8

const (
	goesOn     answerKind = iota // the connection works as before
	terminates                   // a Terminate comes, and the connection ends
	closes                       // the connection ends without a word: FIN or reset
	replies                      // a Reply comes that accepts
	rejects                      // a Reply comes with R=1
	silent                       // nothing comes
	malformed                    // octets come that nobody may send
)

var kindNames = [...]string{
	"goes on", "sends a Terminate", "closes the connection", "accepts with a Reply", "rejects with a Reply",
	"stays silent", "sends malformed octets",
}

// Answer is one thing that a conforming endpoint may do.
type Answer struct {
	kind    answerKind
	codes   []uint16 // of Terminates; none: any
	section string
}

// String says what the answer is, and the section of the RFC that allows it.
func (a Answer) String() string {
	s := kindNames[a.kind]
	if a.kind == terminates {
		var names []string
		for _, c := range a.codes {
			names = append(names, codeText(c))
		}
		if s = "sends a Terminate"; len(names) > 0 {
			s += " " + strings.Join(names, " or ")
		}
	}
	return s + " [" + a.section + "]"
}

// codeText is a code as people write it: layer/type/code.
func codeText(c uint16) string { return fmt.Sprintf("%x/%x/%02x", c>>12, c>>8&0xf, c&0xff) }

func terminate(section string, codes ...uint16) Answer {
	return Answer{kind: terminates, codes: codes, section: section}
}

func end(section string) Answer        { return Answer{kind: closes, section: section} }
func carryOn(section string) Answer    { return Answer{kind: goesOn, section: section} }
func accept(section string) Answer     { return Answer{kind: replies, section: section} }
func reject(section string) Answer     { return Answer{kind: rejects, section: section} }
func sayLess(section string) Answer    { return Answer{kind: silent, section: section} }
func legal(answers ...Answer) []Answer { return answers }

// outcome is what an endpoint has done.
type outcome struct {
	kind   answerKind
	code   uint16 // of a Terminate
	body   []byte // what follows its DDP header
	detail string
}

func (o outcome) String() string {
	s := kindNames[o.kind]
	if o.kind == terminates {
		s += " " + codeText(o.code)
	}
	if o.detail != "" {
		s += " (" + o.detail + ")"
	}
	return s
}

// matches reports whether the outcome is among the answers.
func (o outcome) matches(answers []Answer) bool {
	return slices.ContainsFunc(answers, func(a Answer) bool {
		if a.kind != o.kind {
			return false
		}
		return a.kind != terminates || len(a.codes) == 0 || slices.Contains(a.codes, o.code) ||
			// Local catastrophic errors have no codes: any value is one (RFC 5040 section 4.8).
			o.code>>8 == 0 && slices.ContainsFunc(a.codes, func(c uint16) bool { return c>>8 == 0 })
	})
}

func list(answers []Answer) string {
	s := make([]string, len(answers))
	for i, a := range answers {
		s[i] = a.String()
	}
	return strings.Join(s, "; or ")
}

// terminateOutcome reads a Terminate, which is a whole message on QN 2. wrong tells
// what is against the rules in it.
func terminateOutcome(segment []byte) (o outcome, wrong string) {
	o = outcome{kind: terminates}
	want := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, nil)
	if len(segment) < len(want)+4 {
		return o,
			fmt.Sprintf("the Terminate has %d octets after its DDP header: 4 at least are due (RFC 5040 section 4.8)",
				len(segment)-len(want))
	}
	if h := segment[:len(want)]; string(h) != string(want) {
		return o,
			fmt.Sprintf("the DDP header of the Terminate is %x, want %x: QN 2, MSN 1, MO 0, last (RFC 5040 section "+
				"5.4)",
				h, want)
	}
	o.body = segment[len(want):]
	o.code = binary.BigEndian.Uint16(o.body)
	return o, ""
}

// echo takes what a Terminate carries of the segment at fault apart
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
type echo struct {
	length      int    // DDP Segment Length, -1 if absent
	ddp         []byte // the DDP header, nil if absent
	readRequest []byte // nil if absent
	wrong       string // what is against the rules
}

func parseEcho(body []byte) echo {
	e := echo{length: -1}
	bits := body[2]
	if bits&0x1f != 0 || body[3] != 0 {
		e.wrong = fmt.Sprintf("the reserved bits are %04x, must be sent as zero",
			binary.BigEndian.Uint16(body[2:])&0x1fff)
		return e
	}
	rest := body[4:]
	if bits&0xc0 != 0 {
		if len(rest) < 2 {
			e.wrong = "the DDP Segment Length is missing"
			return e
		}
		e.length, rest = int(binary.BigEndian.Uint16(rest)), rest[2:]
	}
	if bits&0x40 != 0 {
		n := 18
		if len(rest) > 0 && rest[0]&0x80 != 0 {
			n = 14
		}
		if len(rest) < n {
			e.wrong = fmt.Sprintf("%d octets of a DDP header of %d", len(rest), n)
			return e
		}
		e.ddp, rest = rest[:n], rest[n:]
	}
	if bits&0x20 != 0 {
		if len(rest) < 28 {
			e.wrong = fmt.Sprintf("flag R is set with %d octets of a Read Request header of 28", len(rest))
			return e
		}
		e.readRequest, rest = rest[:28], rest[28:]
	}
	if len(rest) > 0 {
		e.wrong = fmt.Sprintf("%d octets follow what the flags %02x announce", len(rest), bits)
	}
	return e
}
