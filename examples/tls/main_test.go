package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	if want := "TLS inside\nTLS below\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
