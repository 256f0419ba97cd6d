package main

import (
	"strings"
	"testing"
)

// No increment is lost, and the race detector has nothing to say.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out, 4, 50); err != nil {
		t.Fatal(err)
	}
	if want := "counted to 200\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
