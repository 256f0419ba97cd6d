package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/internal/race"
)

func TestRun(t *testing.T) {
	clients := 1000
	if race.Enabled { // which takes seconds for so many
		clients = 100
	}
	var out strings.Builder
	if err := run(&out, clients, 2); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d answers to %d clients\n", 2*clients, clients); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
