package cli

import (
	"bufio"
	"encoding/json"

	"github.com/go-iwarp/iwarp/capture"
)

// jsonSink writes an object a line, which are those of package capture.
type jsonSink struct {
	w            *bufio.Writer
	file         string
	hex, verdict bool
	rules        int
}

// fpduObject is an FPDU with its fields.
type fpduObject struct {
	*capture.FPDU
	Fields []capture.Field `json:"fields"`
}

// startupObject is a startup frame with its octets and fields.
type startupObject struct {
	*capture.StartupFrame
	Octets capture.Hex     `json:"octets"`
	Fields []capture.Field `json:"fields"`
}

// endObject is the last line, if the capture could be read to its end.
type endObject struct {
	Event string `json:"event"` // "end"
	File  string `json:"file"`
	capture.Stats
	Info capture.FileInfo `json:"info"`
	// RulesBroken counts the verdicts that were shown and are no SHOULD.
	RulesBroken int `json:"rules_broken"`
}

func (j *jsonSink) event(e capture.Event) error {
	switch v := e.(type) {
	case *capture.Verdict:
		if mandatory(v) {
			j.rules++
		}
		return j.object(v)
	case *capture.FPDU:
		if j.hex && !j.verdict {
			return j.object(fpduObject{v, v.Fields()})
		}
		return nil
	case *capture.StartupFrame:
		switch {
		case j.verdict:
			return nil
		case j.hex:
			return j.object(startupObject{v, v.Octets, v.Fields()})
		}
		return j.object(v)
	case *capture.Opened, *capture.Closed:
		return j.object(v)
	}
	if j.verdict {
		return nil
	}
	return j.object(e)
}

func (j *jsonSink) object(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, _ = j.w.Write(append(escaped(b), '\n')) // bufio keeps the error until Flush
	return nil
}

func (j *jsonSink) end(rd *capture.Reader, err error) error {
	if err != nil {
		return nil // an object with the error follows
	}
	return j.object(endObject{Event: "end", File: j.file, Stats: rd.Stats(), Info: rd.Info(), RulesBroken: j.rules})
}
