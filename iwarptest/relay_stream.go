package iwarptest

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"
)

// stepKind is what the writer of a relay does.
type stepKind uint8

const (
	stepWrite stepKind = iota
	stepHold
	stepFIN   // of the sender
	stepCut   // a FIN of a fault: nothing follows
	stepReset // of a fault
)

// relayStep is one thing for the writer to do.
type relayStep struct {
	kind stepKind
	b    []byte
	size int           // of each write, where the octets are split
	hold time.Duration // of a hold
	due  time.Time
}

// relayStream applies the faults to the octets of one direction. It does no input or output. The octets pass
// three stages: what is counted in octets, in writes, and in FPDUs.
type relayStream struct {
	octets, writes, fpdus relayStage
	onFault               func(RelayFault)

	other   *relayStream // the other direction, whose startup frame says whether this one has Markers
	started relayStartup
	flags   atomic.Uint32 // of this direction's startup frame
	part    []byte        // of an FPDU, or of the startup frame
	pos     uint64        // of part in the stream of FPDUs
}

// relayStartup is how far a stream is.
type relayStartup uint8

const (
	startupDue  relayStartup = iota // its first octets are a startup frame, or it has no FPDUs
	startupOver                     // FPDUs follow
	startupNone                     // it is no stream of FPDUs
)

// relayStage is what goes wrong with one kind of unit.
type relayStage struct {
	faults  []RelayFault
	next    uint64      // number of the unit that comes next
	swapped []relayStep // those that wait for the next unit
}

func newRelayStream(faults []RelayFault, back bool) *relayStream {
	s := new(relayStream)
	for _, f := range faults {
		if f.Back != back {
			continue
		}
		if f.Mask == 0 {
			f.Mask = 1
		}
		switch f.Unit {
		case UnitOctet:
			s.octets.faults = append(s.octets.faults, f)
		case UnitWrite:
			s.writes.faults = append(s.writes.faults, f)
		case UnitFPDU:
			s.fpdus.faults = append(s.fpdus.faults, f)
		}
	}
	return s
}

// feed takes the octets of one read, which it may change and keep.
func (s *relayStream) feed(b []byte) []relayStep {
	var out []relayStep
	for _, step := range s.octetSteps(b) {
		if step.kind != stepWrite {
			out = append(out, step)
			continue
		}
		for _, step := range s.unit(&s.writes, step.b) {
			if step.kind != stepWrite || len(s.fpdus.faults) == 0 && !s.tells() {
				out = append(out, step)
				continue
			}
			out = append(out, s.fpduSteps(step)...)
		}
	}
	return out
}

// tells reports whether the stream must be followed for the other direction's sake: until its startup frame is known.
func (s *relayStream) tells() bool {
	return s.other != nil && len(s.other.fpdus.faults) > 0 && s.started == startupDue
}

// end returns what is still held back when the stream ends.
func (s *relayStream) end() []relayStep {
	out := append(s.writes.swapped, s.fpdus.swapped...)
	if len(s.part) > 0 {
		out = append(out, relayStep{b: s.part})
	}
	return out
}

// covers reports whether a fault is of the unit with a number.
func (f *RelayFault) covers(n uint64) bool {
	return n >= f.At && (f.Count < 0 || n-f.At < uint64(max(f.Count, 1)))
}

// point turns a fault that happens between units into a step.
func (f *RelayFault) point() (step relayStep, ok bool) {
	switch f.Kind {
	case RelayHold:
		return relayStep{kind: stepHold, hold: f.For}, true
	case RelayCut:
		return relayStep{kind: stepCut}, true
	case RelayReset:
		return relayStep{kind: stepReset}, true
	}
	return step, false
}

func (s *relayStream) tell(f *RelayFault) {
	if s.onFault != nil {
		s.onFault(*f)
	}
}

// octetSteps applies the faults that are counted in octets.
func (s *relayStream) octetSteps(b []byte) (out []relayStep) {
	st := &s.octets
	if len(st.faults) == 0 {
		return []relayStep{{b: b}}
	}
	joins := false // the last step is the octets before these
	for len(b) > 0 {
		n := uint64(len(b)) // as many as all faults treat alike
		for i := range st.faults {
			f := &st.faults[i]
			if f.At > st.next {
				n = min(n, f.At-st.next)
			} else if f.Count >= 0 && f.covers(st.next) {
				n = min(n, f.At+uint64(max(f.Count, 1))-st.next)
			}
		}
		run, drop := b[:n], false
		for i := range st.faults {
			f := &st.faults[i]
			if step, ok := f.point(); ok && f.At == st.next {
				s.tell(f)
				out, joins = append(out, step), false
				continue
			}
			if !f.covers(st.next) {
				continue
			}
			switch f.Kind {
			case RelayDrop:
				s.tell(f)
				drop = true
			case RelayCorrupt:
				s.tell(f)
				for k := range run {
					run[k] ^= f.Mask
				}
			}
		}
		switch {
		case drop:
			joins = false
		case joins:
			last := &out[len(out)-1]
			last.b = last.b[:len(last.b)+len(run)]
		default:
			out, joins = append(out, relayStep{b: run}), true
		}
		b, st.next = b[n:], st.next+n
	}
	return out
}

// unit applies the faults that are counted in writes, or in FPDUs, to the next one.
func (s *relayStream) unit(st *relayStage, b []byte) (out []relayStep) {
	step, dropped, swap := relayStep{b: b}, false, false
	for i := range st.faults {
		f := &st.faults[i]
		if point, ok := f.point(); ok {
			if f.At == st.next {
				s.tell(f)
				out = append(out, point)
			}
			continue
		}
		if !f.covers(st.next) || len(b) == 0 {
			continue
		}
		s.tell(f)
		switch f.Kind {
		case RelayDrop:
			dropped = true
		case RelayReorder:
			swap = true
		case RelaySplit:
			step.size = max(f.Size, 1)
		case RelayCorrupt:
			b[min(f.Octet, len(b)-1)] ^= f.Mask
			if f.Fix {
				FixCRC(b)
			}
		}
	}
	st.next++
	if dropped {
		return out
	}
	if swap && len(st.swapped) == 0 {
		st.swapped = []relayStep{step}
		return out
	}
	out = append(out, step)
	out = append(out, st.swapped...)
	st.swapped = nil
	return out
}

// fpduSteps cuts a stream into its startup frame and FPDUs and applies the faults that are counted in FPDUs.
func (s *relayStream) fpduSteps(step relayStep) (out []relayStep) {
	if s.started == startupNone {
		return []relayStep{step}
	}
	s.part = append(s.part, step.b...)
	if s.started == startupDue {
		n := s.startup()
		if n == 0 {
			return nil
		}
		out = append(out, relayStep{b: slices.Clone(s.part[:n]), size: step.size})
		s.part = s.part[n:]
	}
	if s.started == startupNone || len(s.fpdus.faults) == 0 {
		return append(out, s.rest(step.size)...)
	}
	for {
		markers := s.other != nil && s.other.flags.Load()&FlagM != 0
		n := fpduLen(s.part, s.pos, markers)
		if n == 0 || n > len(s.part) {
			return out
		}
		out = append(out, s.unit(&s.fpdus, slices.Clone(s.part[:n]))...)
		s.part, s.pos = s.part[n:], s.pos+uint64(n)
	}
}

// rest returns all that is kept, when nothing is looked for in it any more.
func (s *relayStream) rest(size int) []relayStep {
	b := s.part
	s.part = nil
	if len(b) == 0 {
		return nil
	}
	return []relayStep{{b: b, size: size}}
}

// startup looks for the startup frame and returns its length, 0 while it is not all there.
func (s *relayStream) startup() int {
	b := s.part
	key := string(b[:min(len(b), len(requestKey))])
	if key != requestKey[:len(key)] && key != replyKey[:len(key)] {
		s.started = startupNone
		return len(b)
	}
	if len(b) < startupLen {
		return 0
	}
	n := startupLen + int(binary.BigEndian.Uint16(b[18:]))
	if len(b) < n {
		return 0
	}
	s.flags.Store(uint32(b[16]))
	s.started = startupOver
	return n
}

// fpduLen returns the length of the FPDU at the start of b, which is at pos in the stream of FPDUs, with its Markers; 0
// while its length field is not there.
func fpduLen(b []byte, pos uint64, markers bool) int {
	n := 0
	if markers && pos%MarkerInterval == 0 {
		n = 4
	}
	if len(b) < n+2 {
		return 0
	}
	clean := (2+int(binary.BigEndian.Uint16(b[n:]))+3)&^3 + 4
	if !markers {
		return clean
	}
	for n = 0; clean > 0; {
		at := (pos + uint64(n)) % MarkerInterval
		if at == 0 {
			n += 4
			at = 4
		}
		run := min(clean, MarkerInterval-int(at))
		n, clean = n+run, clean-run
	}
	return n
}
