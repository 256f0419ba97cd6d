package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/rdmap"
)

// inspectFilter is a filter of events: terms that all must hold.
//
//	filter = term { ["and" | ","] term }
//	term   = key ("=" | "!=") value { "," value } | "error" | "!error"
//
// What follows a comma is a value if it is no term.
type inspectFilter struct {
	terms []filterTerm
}

// filterTerm holds if one of its values does, or with not if none does.
type filterTerm struct {
	key    string
	not    bool
	ranges []valueRange // conn, frame
	sides  []analysis.Side
	ops    opSet
	stags  []analysis.STag
}

type valueRange struct{ from, to uint64 }

// The keys.
const (
	keyConn  = "conn"
	keyFrame = "frame"
	keyFrom  = "from"
	keyOp    = "op"
	keySTag  = "stag"
	keyError = "error"
)

var filterKeys = []string{keyConn, keyFrame, keyFrom, keyOp, keySTag, keyError}

// opSet is a set of opcodes, and of startup frames.
type opSet uint32

const opStartup opSet = 1 << 16

func (s opSet) has(opcode uint8) bool { return opcode < 16 && s>>opcode&1 != 0 }

func opsOf(ops ...rdmap.Opcode) (s opSet) {
	for _, op := range ops {
		s |= 1 << op
	}
	return s
}

// filterOps are the names of operations, groups first.
var filterOps = []struct {
	name string
	ops  opSet
}{
	{
		"send",
		opsOf(rdmap.OpcodeSend, rdmap.OpcodeSendInvalidate, rdmap.OpcodeSendSolicited,
			rdmap.OpcodeSendSolicitedInvalidate),
	},
	{"write", opsOf(rdmap.OpcodeWrite)},
	{"read", opsOf(rdmap.OpcodeReadRequest, rdmap.OpcodeReadResponse)},
	{"atomic", opsOf(rdmap.OpcodeAtomicRequest, rdmap.OpcodeAtomicResponse)},
	{"immediate", opsOf(rdmap.OpcodeImmediate, rdmap.OpcodeImmediateSolicited)},
	{"terminate", opsOf(rdmap.OpcodeTerminate)},
	{"startup", opStartup},
	{"send-plain", opsOf(rdmap.OpcodeSend)},
	{"send-inv", opsOf(rdmap.OpcodeSendInvalidate)},
	{"send-se", opsOf(rdmap.OpcodeSendSolicited)},
	{"send-se-inv", opsOf(rdmap.OpcodeSendSolicitedInvalidate)},
	{"read-request", opsOf(rdmap.OpcodeReadRequest)},
	{"read-response", opsOf(rdmap.OpcodeReadResponse)},
	{"atomic-request", opsOf(rdmap.OpcodeAtomicRequest)},
	{"atomic-response", opsOf(rdmap.OpcodeAtomicResponse)},
}

// UnmarshalText parses a filter.
func (f *inspectFilter) UnmarshalText(b []byte) error {
	parsed, err := parseFilter(string(b))
	if err == nil {
		*f = parsed
	}
	return err
}

// parseFilter parses a filter. The error names the part that is wrong and what
// would be right.
func parseFilter(s string) (inspectFilter, error) {
	var f inspectFilter
	var t *filterTerm // to which more values may come
	expected := true  // a term is due
	for _, word := range filterWords(s) {
		switch key, value, not, ok := splitTerm(word); {
		case word == "and" || word == "&&":
			if expected {
				return f, fmt.Errorf("%q: a term is missing before %q", s, word)
			}
			t, expected = nil, true
		case ok:
			f.terms = append(f.terms, filterTerm{key: key, not: not})
			t, expected = &f.terms[len(f.terms)-1], false
			if err := t.add(value); err != nil {
				return f, fmt.Errorf("%q: %w", word, err)
			}
		case t != nil && t.key != keyError && !strings.ContainsRune(word, '='):
			if err := t.add(word); err != nil {
				return f, fmt.Errorf("%q in %q: %w", word, s, err)
			}
		default:
			return f, fmt.Errorf("%q in %q is no term: KEY=VALUE with the key conn, frame, from, op or stag, or error",
				word, s)
		}
	}
	if expected {
		return f, fmt.Errorf("%q: a term is missing at the end", s)
	}
	return f, nil
}

// filterWords cuts at commas and spaces. An empty word stands where a comma has
// nothing before or after it.
func filterWords(s string) (words []string) {
	for part := range strings.SplitSeq(s, ",") {
		fields := strings.Fields(part)
		if len(fields) == 0 {
			fields = []string{""}
		}
		words = append(words, fields...)
	}
	return words
}

// splitTerm takes a term apart. ok is false if s is none.
func splitTerm(s string) (key, value string, not, ok bool) {
	switch s {
	case keyError, "!" + keyError:
		return keyError, "", s[0] == '!', true
	}
	key, value, ok = strings.Cut(s, "=")
	key, not = strings.CutSuffix(key, "!")
	return key, value, not, ok && key != keyError && slices.Contains(filterKeys, key)
}

// add adds a value.
func (t *filterTerm) add(v string) error {
	if v == "" && t.key != keyError {
		return errors.New("a value is missing")
	}
	switch t.key {
	case keyConn, keyFrame:
		r, err := parseRange(v)
		t.ranges = append(t.ranges, r)
		return err
	case keyFrom:
		var side analysis.Side
		if err := side.UnmarshalText([]byte(v)); err != nil {
			return errors.New("the end is initiator, responder, a or b")
		}
		t.sides = append(t.sides, side)
	case keyOp:
		for _, op := range filterOps {
			if op.name == v {
				t.ops |= op.ops
				return nil
			}
		}
		return fmt.Errorf("no such operation: %s", opNames())
	case keySTag:
		n, err := strconv.ParseUint(v, 0, 32)
		if err != nil {
			return errors.New("an STag is a number of 32 bits, such as 0x1234abcd")
		}
		t.stags = append(t.stags, analysis.STag(n))
	}
	return nil
}

func opNames() string {
	names := make([]string, len(filterOps))
	for i, op := range filterOps {
		names[i] = op.name
	}
	return strings.Join(names, ", ")
}

func parseRange(v string) (valueRange, error) {
	first, last, isRange := strings.Cut(v, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if err1 != nil || err2 != nil || from < 1 || to < from {
		return valueRange{}, errors.New("a number from 1, or two with - between, the smaller one first")
	}
	return valueRange{from, to}, nil
}

// ofMessages reports whether a term asks for what only messages have, or for errors.
func (f *inspectFilter) ofMessages() bool {
	return slices.ContainsFunc(f.terms,
		func(t filterTerm) bool { return t.key == keyOp || t.key == keySTag || t.key == keyError })
}

// ofEvents reports whether a term asks for more than the connection.
func (f *inspectFilter) ofEvents() bool {
	return slices.ContainsFunc(f.terms, func(t filterTerm) bool { return t.key != keyConn })
}

// conn reports whether the terms that ask for the connection hold.
func (f *inspectFilter) conn(n int) bool {
	for i := range f.terms {
		if t := &f.terms[i]; t.key == keyConn && t.inRange(uint64(n), uint64(n)) == t.not {
			return false
		}
	}
	return true
}

// match reports whether all terms hold.
func (f *inspectFilter) match(e analysis.Event) bool {
	for i := range f.terms {
		if t := &f.terms[i]; t.match(e) == t.not {
			return false
		}
	}
	return true
}

func (t *filterTerm) match(e analysis.Event) bool {
	h := e.Header()
	switch t.key {
	case keyConn:
		return t.inRange(uint64(h.Conn), uint64(h.Conn))
	case keyFrame:
		return t.inRange(firstFrame(e), h.Frame)
	case keyFrom:
		return slices.Contains(t.sides, h.From)
	case keyOp:
		return t.hasOp(e)
	case keySTag:
		return slices.ContainsFunc(stagsOf(e), func(s analysis.STag) bool { return slices.Contains(t.stags, s) })
	default:
		return isError(e)
	}
}

// inRange reports whether a range has one of the numbers from first to last.
func (t *filterTerm) inRange(first, last uint64) bool {
	return slices.ContainsFunc(t.ranges, func(r valueRange) bool { return first <= r.to && last >= r.from })
}

func (t *filterTerm) hasOp(e analysis.Event) bool {
	switch e := e.(type) {
	case *analysis.StartupFrame, *analysis.Negotiated:
		return t.ops&opStartup != 0
	case *analysis.Message:
		return t.ops.has(e.Opcode)
	case *analysis.FPDU:
		h, _, ok := headerOf(e.ULPDU)
		return ok && t.ops.has(uint8(rdmap.Control(h.Control).Opcode()))
	}
	return false
}
