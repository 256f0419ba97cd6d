package prom_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/metrics/prom"
)

// A registry that checks everything takes the collector, and the numbers are the device's.
func TestCollector(t *testing.T) {
	d, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(prom.NewCollector(d, "a"))
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *iwarp.Conn, 1)
	go func() {
		c, _ := ln.Accept(context.Background())
		accepted <- c
	}()
	c, err := iwarp.Dial(t.Context(), "tcp", ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := <-accepted
	_ = c.RDMAWrite(t.Context(), make([]byte, 8), iwarp.RemoteBuffer{STag: 77})
	<-s.Done()
	<-c.Done()
	if err := ln.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `# HELP iwarp_connections Connections that stand.
# TYPE iwarp_connections gauge
iwarp_connections{device="a"} 0
# HELP iwarp_connections_total Connections ever made.
# TYPE iwarp_connections_total counter
iwarp_connections_total{device="a"} 1
# HELP iwarp_errors_total Connections that ended in error, by code and by who found it.
# TYPE iwarp_errors_total counter
iwarp_errors_total{by="here",code="1/1/00",device="a"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"iwarp_connections", "iwarp_connections_total", "iwarp_errors_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
