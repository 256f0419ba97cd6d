package sctp

import "testing"

// A segment longer than MULPDU is refused, whoever cuts it.
// Shows: SCTP-9-04
func TestTooLong(t *testing.T) {
	s := &session{assoc: &Association{a: pionLower{max: MinSegment}, segment: MinSegment}}
	if s.MULPDU() != MinSegment {
		t.Errorf("MULPDU %d", s.MULPDU())
	}
	if err := s.Queue(make([]byte, 14), [][]byte{make([]byte, MinSegment-13)}, false); err == nil {
		t.Error("a segment one octet longer than MULPDU is taken")
	}
	if s.ssn != 0 {
		t.Error("it has taken a DDP-SSN")
	}
}
