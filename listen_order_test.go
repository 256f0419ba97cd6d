package iwarp_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Requests are handed up in the order of the connections, however they come.
func TestListenInOrder(t *testing.T) {
	const patience = 100 * time.Millisecond
	for _, tt := range []struct {
		name   string
		speaks []int // connections of four, in the order of their Requests, all at once
		fails  []int // that hang up instead, before
		want   string
		takes  time.Duration
	}{
		{name: "in order", speaks: []int{0, 1, 2, 3}, want: "0123"},
		{name: "backwards", speaks: []int{3, 2, 1, 0}, want: "0123"},
		{name: "one hangs up", fails: []int{1}, speaks: []int{3, 2, 0}, want: "023"},
		{name: "the first two hang up", fails: []int{1, 0}, speaks: []int{3, 2}, want: "23"},
		{name: "the last one hangs up", fails: []int{3}, speaks: []int{2, 1, 0}, want: "012"},
		{name: "one is silent", speaks: []int{3, 2, 0}, want: "023", takes: patience},
		{name: "two are silent", speaks: []int{3, 0}, want: "03", takes: patience},
		{name: "the first is silent", speaks: []int{2, 3, 1}, want: "123", takes: patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newMemListener()
				cfg := iwarp.ListenConfig{InOrder: patience}
				ln := must(cfg.NewListener(l))(t)
				var cs []dialed
				for i := range 4 {
					cs = append(cs, l.dial(fmt.Sprintf("10.0.0.%d", i+1)))
					synctest.Wait()
				}
				for _, i := range tt.fails {
					_ = cs[i].Close()
					synctest.Wait()
				}
				start := time.Now()
				for _, i := range tt.speaks {
					_, err := cs[i].Write(request(fmt.Sprint(i)))
					check(t, "write", err)
					synctest.Wait()
				}
				got := ""
				for range tt.want {
					r := must(ln.AcceptRequest(testContext(t)))(t)
					got += string(r.PrivateData())
					check(t, "Close", r.Close())
				}
				if got != tt.want {
					t.Errorf("requests came as %s, want %s", got, tt.want)
				}
				if took := time.Since(start); took != tt.takes {
					t.Errorf("it took %v, want %v", took, tt.takes)
				}
				check(t, "Close", ln.Close())
				for _, c := range cs {
					_ = c.Close()
				}
			})
		})
	}
}

// A connection that has failed is not kept for those that follow.
func TestListenInOrderForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		cfg := iwarp.ListenConfig{InOrder: time.Hour, MaxPending: 4}
		ln := must(cfg.NewListener(l))(t)
		for i := range 1000 {
			_ = l.dial(fmt.Sprintf("10.0.%d.%d", i/256, i%256)).Close()
		}
		synctest.Wait()
		last := l.dial("10.1.0.0")
		_, err := last.Write(request("last"))
		check(t, "write", err)
		start := time.Now()
		r := must(ln.AcceptRequest(testContext(t)))(t)
		if time.Since(start) != 0 {
			t.Errorf("it waited %v for connections that have gone", time.Since(start))
		}
		check(t, "Close", r.Close())
		check(t, "Close", ln.Close())
	})
}
