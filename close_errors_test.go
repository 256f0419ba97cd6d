package iwarp_test

import (
	"errors"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// After Close and after Abort a program that knows only package net understands
// what it is told.
func TestClosedIsNetErrClosed(t *testing.T) {
	for name, end := range map[string]func(a, b *iwarp.Conn){
		"Close": func(a, b *iwarp.Conn) { closeBoth(t, a, b) },
		"Abort": func(a, _ *iwarp.Conn) { a.Abort() },
	} {
		a, b := tcpPair(t, nil, nil)
		end(a, b)
		if err := a.Send(testContext(t), nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send after %s: %v, want net.ErrClosed in it", name, err)
		}
		if name == "Close" {
			if err := a.Send(testContext(t), nil); !errors.Is(err, iwarp.ErrClosed) {
				t.Errorf("Send after Close: %v, want ErrClosed", err)
			}
		}
	}
}
