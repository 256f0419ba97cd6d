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
	if want := "SERVING\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
