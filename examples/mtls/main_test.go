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
	want := "mallory is rejected: true\naccepted: alice\nanswer to a question\nthe server has left: true\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
