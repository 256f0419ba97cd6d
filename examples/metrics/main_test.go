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
	want := `iwarp_connections{device="echo"} 1
iwarp_payload_received_octets_total{device="echo"} 15
iwarp_connections{device="echo"} 0
iwarp_payload_received_octets_total{device="echo"} 15
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
