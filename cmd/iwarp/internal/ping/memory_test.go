package ping

import (
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
)

// What all clients of a ping server take together is bounded, and comes back.
func TestPingServerMemory(t *testing.T) {
	s := &pingServer{maxSize: 1 << 20}
	var clients []*servedClient
	for range maxFull {
		c := &servedClient{maxSize: s.maxSize, grant: s.grant}
		for _, n := range []int{1 << 10, 1 << 19, 1 << 20, 1 << 10, 1 << 20} { // none but growth counts
			if err := c.resize(0, n); err != nil {
				t.Fatal(err)
			}
		}
		clients = append(clients, c)
	}
	late := &servedClient{maxSize: s.maxSize, grant: s.grant}
	err := late.resize(0, 1)
	if err == nil {
		t.Fatal("one client more has memory")
	}
	cmdtest.MustContain(t, "error", err.Error(), "--max-size")
	s.memory.Add(-int64(cap(clients[0].buf))) // as when it has gone
	if err := late.resize(0, 1<<20); err != nil {
		t.Error(err)
	}
}
