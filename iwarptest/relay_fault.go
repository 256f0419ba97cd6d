package iwarptest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RelayFaultKind is what goes wrong at a [Relay].
type RelayFaultKind string

// The kinds of [RelayFault].
const (
	// RelayCorrupt inverts bits.
	RelayCorrupt RelayFaultKind = "corrupt"
	// RelayDrop leaves out what it names, as no TCP does.
	RelayDrop RelayFaultKind = "drop"
	// RelayReorder passes on an FPDU or a write after the one that follows it, for which it waits.
	RelayReorder RelayFaultKind = "reorder"
	// RelaySplit passes on an FPDU or a write in several writes of Size octets.
	RelaySplit RelayFaultKind = "split"
	// RelayHold passes on nothing, from there on, for a time or until [Relay.Resume].
	RelayHold RelayFaultKind = "hold"
	// RelayCut ends the direction there with a FIN.
	RelayCut RelayFaultKind = "cut"
	// RelayReset resets the connection there, at both ends.
	RelayReset RelayFaultKind = "reset"
)

// RelayUnit is what a [RelayFault] counts.
type RelayUnit string

// What can be counted in a direction, each from 0.
const (
	// UnitOctet counts octets, startup frames included.
	UnitOctet RelayUnit = "octet"
	// UnitWrite counts what the relay reads at a time, which is a write of the sender where the writes are far enough
	// apart, and has at most 64 KiB.
	UnitWrite RelayUnit = "write"
	// UnitFPDU counts FPDUs. The startup frame before them is none, and a stream that does not begin with one has none.
	// Markers are known of and stay with their FPDU, so that those after a drop or a reorder are at the wrong place.
	UnitFPDU RelayUnit = "fpdu"
)

// RelayFault is one thing that goes wrong in one direction of each connection of a [Relay]. As text it is
//
//	KIND:UNIT=AT[,count=N][,octet=N][,mask=N][,fix][,size=N][,for=DURATION][,back]
//
// such as "corrupt:fpdu=3,octet=20,back" or "hold:octet=1000,for=2s".
type RelayFault struct {
	Kind RelayFaultKind
	// Unit and At say where: at the octet, the write or the FPDU with this number, from 0.
	Unit RelayUnit
	At   uint64
	// Count is to how many of them in a row, from At on, it happens; 0 means 1, and a negative number all. A cut, a
	// reset and a hold happen once.
	Count int
	// Octet is which octet of the write or FPDU is corrupted, from 0; in one that is shorter, the last.
	Octet int
	// Mask has the bits that a corruption inverts; 0 means 0x01.
	Mask byte
	// Fix computes the CRC of a corrupted FPDU anew, so that it does not give the corruption away.
	Fix bool
	// Size is the length of the writes of a split in octets; 0 means 1.
	Size int
	// For is how long a hold lasts; 0 means until [Relay.Resume].
	For time.Duration
	// Back says that it happens on the way back.
	Back bool
}

// check says what is wrong with the fault.
func (f *RelayFault) check() error {
	switch f.Kind {
	case RelayCorrupt, RelayDrop, RelayReorder, RelaySplit, RelayHold, RelayCut, RelayReset:
	default:
		return fmt.Errorf("kind %q: corrupt, drop, reorder, split, hold, cut or reset", f.Kind)
	}
	switch f.Unit {
	case UnitFPDU, UnitWrite:
	case UnitOctet:
		if f.Kind == RelayReorder || f.Kind == RelaySplit {
			return fmt.Errorf("%s of octets: it is of FPDUs or writes", f.Kind)
		}
	default:
		return fmt.Errorf("unit %q: octet, write or fpdu", f.Unit)
	}
	switch {
	case f.Octet < 0 || f.Size < 0 || f.For < 0:
		return fmt.Errorf("octet %d, size %d, for %v: none of them below 0", f.Octet, f.Size, f.For)
	case f.Size != 0 && f.Kind != RelaySplit:
		return fmt.Errorf("size %d: only a split has one", f.Size)
	case f.For != 0 && f.Kind != RelayHold:
		return fmt.Errorf("for %v: only a hold lasts", f.For)
	case f.Mask != 0 && f.Kind != RelayCorrupt:
		return fmt.Errorf("mask %#x: only a corruption has one", f.Mask)
	case f.Octet != 0 && (f.Kind != RelayCorrupt || f.Unit == UnitOctet):
		return fmt.Errorf("octet %d: only an FPDU or a write that is corrupted has one", f.Octet)
	case f.Count != 0 && (f.Kind == RelayHold || f.Kind == RelayCut || f.Kind == RelayReset):
		return fmt.Errorf("count %d: a %s happens once", f.Count, f.Kind)
	case f.Fix && (f.Kind != RelayCorrupt || f.Unit != UnitFPDU):
		return errors.New("fix: only an FPDU that is corrupted has a CRC to compute")
	}
	return nil
}

// String is the fault as text.
func (f RelayFault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%s=%d", f.Kind, f.Unit, f.At)
	for _, v := range []struct {
		name string
		n    int
	}{{"count", f.Count}, {"octet", f.Octet}, {"mask", int(f.Mask)}, {"size", f.Size}} {
		if v.n != 0 {
			fmt.Fprintf(&b, ",%s=%d", v.name, v.n)
		}
	}
	if f.For != 0 {
		fmt.Fprintf(&b, ",for=%v", f.For)
	}
	if f.Fix {
		b.WriteString(",fix")
	}
	if f.Back {
		b.WriteString(",back")
	}
	return b.String()
}

// MarshalText implements [encoding.TextMarshaler].
func (f RelayFault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *RelayFault) UnmarshalText(text []byte) error {
	var v RelayFault
	kind, rest, ok := strings.Cut(string(text), ":")
	if !ok {
		return fmt.Errorf("%q: want KIND:UNIT=AT[,...], such as corrupt:fpdu=3", text)
	}
	v.Kind = RelayFaultKind(kind)
	for word := range strings.SplitSeq(rest, ",") {
		if err := v.set(word); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	if err := v.check(); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*f = v
	return nil
}

// set takes in one word of the text.
func (f *RelayFault) set(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	number := func() int {
		n, nerr := strconv.ParseInt(value, 0, 32)
		if nerr != nil {
			err = fmt.Errorf("%q: a whole number", value)
		}
		return int(n)
	}
	switch name {
	case string(UnitOctet), string(UnitWrite), string(UnitFPDU):
		if f.Unit == "" { // the first is the unit; an octet after it is one of its octets
			f.Unit = RelayUnit(name)
			if f.At, err = strconv.ParseUint(value, 0, 64); err != nil {
				err = fmt.Errorf("%q: a whole number from 0 on", value)
			}
			break
		}
		if name != string(UnitOctet) {
			return fmt.Errorf("%s: counted is %s", word, f.Unit)
		}
		f.Octet = number()
	case "count":
		f.Count = number()
	case "mask":
		n, nerr := strconv.ParseUint(value, 0, 8)
		if nerr != nil || n == 0 {
			err = fmt.Errorf("%q: a number from 1 to 255, whose bits are inverted", value)
		}
		f.Mask = byte(n)
	case "size":
		f.Size = number()
	case "for":
		if f.For, err = time.ParseDuration(value); err != nil {
			err = fmt.Errorf("%q: a duration, such as 500ms", value)
		}
	case "fix":
		f.Fix = true
	case "back":
		f.Back = true
	default:
		return fmt.Errorf("%q: octet, write, fpdu, count, mask, fix, size, for or back", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
