package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// who is whose octets something happens to.
type who string

const (
	initiator who = "initiator"
	responder who = "responder"
	both      who = ""
)

// The kinds of SPEC that are properties of the line, and no faults of [iwarptest.Relay].
const (
	kindDelay    = "delay"
	kindThrottle = "throttle"
)

// faultSpec is a value of --fault. It is a delay, a rate or a fault.
type faultSpec struct {
	text  string
	kind  string
	who   who
	delay time.Duration
	rate  int64 // octets a second
	fault iwarptest.RelayFault
}

// String is the flag's value.
func (s faultSpec) String() string { return s.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *faultSpec) UnmarshalText(b []byte) error {
	v := faultSpec{text: string(b)}
	kind, rest, ok := strings.Cut(v.text, ":")
	if !ok {
		return fmt.Errorf("%q: KIND:WHERE,WHO, such as corrupt:fpdu=17,responder, or delay:5ms", v.text)
	}
	v.kind = kind
	var words []string
	for word := range strings.SplitSeq(rest, ",") {
		switch who(word) {
		case initiator, responder:
			if v.who != both {
				return fmt.Errorf("%q: initiator or responder, once", v.text)
			}
			v.who = who(word)
		default:
			words = append(words, word)
		}
	}
	var err error
	switch kind {
	case kindDelay, kindThrottle:
		err = v.setLine(words)
	default:
		err = v.setFault(words)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", v.text, err)
	}
	*s = v
	return nil
}

// setLine takes in the words of a delay or a rate.
func (s *faultSpec) setLine(words []string) error {
	if len(words) != 1 {
		return fmt.Errorf("%s has one value, and initiator or responder after it at most", s.kind)
	}
	if s.kind == kindThrottle {
		var n ui.Octets
		if err := n.UnmarshalText([]byte(words[0])); err != nil {
			return fmt.Errorf("octets a second: %w", err)
		}
		s.rate = int64(n)
		return nil
	}
	var d ui.Wait
	if err := d.UnmarshalText([]byte(words[0])); err != nil {
		return err
	}
	s.delay = time.Duration(d)
	return nil
}

// lastOctet is beyond every FPDU: [iwarptest.RelayFault] takes the last octet then, which is of the CRC.
const lastOctet = 1<<31 - 1

// setFault takes in the words of a fault.
func (s *faultSpec) setFault(words []string) error {
	kinds := []string{"corrupt", "drop", "reorder", "split", "hold", "cut", "reset", kindDelay, kindThrottle}
	if !slices.Contains(kinds, s.kind) {
		return fmt.Errorf("%q is no kind of fault: %s", s.kind, strings.Join(kinds, ", "))
	}
	if len(words) == 0 {
		return errors.New("say where: fpdu=N, write=N or octet=N")
	}
	if slices.Contains(words, "back") {
		return errors.New("back: say whose octets it happens to: initiator or responder")
	}
	if err := s.fault.UnmarshalText([]byte(s.kind + ":" + strings.Join(words, ","))); err != nil {
		return errors.Unwrap(err) // without the text
	}
	if s.who == both {
		return errors.New("say whose octets it happens to: initiator or responder, at the end")
	}
	f := &s.fault
	f.Back = s.who == responder
	if f.Kind == iwarptest.RelayCorrupt && f.Unit == iwarptest.UnitFPDU &&
		!slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "octet=") }) {
		if f.Fix {
			return errors.New("fix: which octet it hides must be said: octet=N")
		}
		f.Octet = lastOctet
	}
	if f.Kind == iwarptest.RelayCorrupt && f.Mask == 0 {
		f.Mask = 1 // as the relay does: a fault that happens is looked up by its value
	}
	return nil
}

// wire is what lies between the two ends.
type wire struct {
	initiator, responder iwarptest.RelayPath // ways of what they send
	faults               []iwarptest.RelayFault
	texts                map[iwarptest.RelayFault]string
}

// newWire puts the values of --fault together.
func newWire(specs []faultSpec) (wire, error) {
	w := wire{texts: map[iwarptest.RelayFault]string{}}
	for _, s := range specs {
		paths := []*iwarptest.RelayPath{&w.initiator, &w.responder}
		switch s.who {
		case initiator:
			paths = paths[:1]
		case responder:
			paths = paths[1:]
		}
		for _, p := range paths {
			twice := s.kind == kindDelay && p.Delay != 0 || s.kind == kindThrottle && p.Rate != 0
			if twice {
				return w, fmt.Errorf("--fault %v: there is a %s for that direction already", s, s.kind)
			}
			p.Delay += s.delay
			p.Rate += s.rate
		}
		if s.kind == kindDelay || s.kind == kindThrottle {
			continue
		}
		if w.texts[s.fault] != "" {
			return w, fmt.Errorf("--fault %v: the same is there already", s)
		}
		w.faults, w.texts[s.fault] = append(w.faults, s.fault), s.text
	}
	return w, nil
}
