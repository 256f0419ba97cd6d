package inspect

import (
	"fmt"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// fpduWords tells of an FPDU as such.
func fpduWords(f *analysis.FPDU) string {
	crc := "CRC " + f.CRC
	switch f.CRC {
	case "off":
		crc = "CRC not used"
	case "unknown":
		crc = "CRC unknown"
	}
	s := fmt.Sprintf("FPDU at octet %d: %s, %s", f.Offset, ui.Plural(f.Length, "octet"), crc)
	if n := len(f.Markers); n > 0 {
		s += ", " + ui.Plural(n, "Marker")
	}
	if !f.Aligned {
		s += ", within a TCP segment"
	}
	if f.Cut {
		s += fmt.Sprintf(", %d of them in the capture", len(f.Octets))
	}
	return s
}

const hexColumns = 16

// octets writes octets with the fields that they are. Markers stand where they
// are, also within another field.
func (t *textSink) octets(b []byte, fields []analysis.Field) {
	var markers []analysis.Field
	for _, f := range fields {
		if f.Name == markerField {
			markers = append(markers, f)
		}
	}
	for _, f := range fields {
		if f.Name == markerField {
			continue
		}
		for len(markers) > 0 && markers[0].Offset <= f.Offset {
			t.field(b, &markers[0], 0, false)
			markers = markers[1:]
		}
		at, end, inside := f.Offset, f.Offset+f.Length, 0
		for len(markers) > inside && markers[inside].Offset < end {
			inside++
		}
		rest := false // of the field
		for _, m := range markers[:inside] {
			t.field(b, &analysis.Field{Name: f.Name, Offset: at, Length: m.Offset - at, Value: f.Value, Note: f.Note},
				f.Length-inside*m.Length, rest)
			t.field(b, &m, 0, false)
			at, rest = m.Offset+m.Length, true
		}
		t.field(b, &analysis.Field{Name: f.Name, Offset: at, Length: end - at, Value: f.Value, Note: f.Note},
			f.Length-inside*markerOctets, rest)
		markers = markers[inside:]
	}
	for i := range markers {
		t.field(b, &markers[i], 0, false)
	}
}

// What a Marker is called in analysis.Field.
const (
	markerField  = "Marker"
	markerOctets = 4
)

// field writes a field, or a piece of one. total is the length of all of it without
// Markers, 0 if that does not matter; the name stands beside the first piece only.
func (t *textSink) field(b []byte, f *analysis.Field, total int, rest bool) {
	end := min(f.Offset+f.Length, len(b))
	label := f.Name
	text := f.Name == "Payload" || f.Name == "Private Data" // the ULP's: may be readable
	if f.Value != "" && !text && (total <= hexColumns || f.Note != "") {
		label += " " + f.Value
	}
	if f.Note != "" {
		label += " (" + f.Note + ")"
	}
	if total > hexColumns {
		label += ", " + ui.Plural(total, "octet")
	}
	for at := f.Offset; at < end; at += hexColumns {
		row := b[at:min(at+hexColumns, end)]
		beside := label
		if text || rest || at > f.Offset {
			beside = characters(row)
			if at == f.Offset && !rest {
				beside = fmt.Sprintf("%-*s  %s", hexColumns, beside, label)
			}
		}
		fmt.Fprintf(t.w, "%12d  %-48s%s\n", at, hexRow(row), beside)
	}
}

func hexRow(b []byte) string { return fmt.Sprintf("% x", b) }

// characters shows those of ASCII.
func characters(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c < ' ' || c > '~' {
			c = '.'
		}
		s.WriteByte(c)
	}
	return s.String()
}
