package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out, 1000, 2); err != nil {
		t.Fatal(err)
	}
	if want := "2000 answers to 1000 clients\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
