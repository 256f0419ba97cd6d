// Package metrics names what a device counts, for systems that collect numbers: package prom
// is for Prometheus, package otel for OpenTelemetry, each on the official client library.
//
// The numbers are those of [iwarp.Device.Totals] and [iwarp.Device.Use], read when they are
// collected. They cost the connections nothing.
package metrics

import (
	"fmt"

	"github.com/go-iwarp/iwarp"
)

// Metric is a number that a device has.
type Metric struct {
	Name  string // with words parted by '_', without a prefix
	Help  string
	Gauge bool // it may fall; else it only grows
	Value func(*iwarp.DeviceTotals, *iwarp.DeviceUse) float64
}

func total(name, help string, f func(*iwarp.DeviceTotals) uint64) Metric {
	value := func(t *iwarp.DeviceTotals, _ *iwarp.DeviceUse) float64 { return float64(f(t)) }
	return Metric{name, help, false, value}
}

func use(name, help string, f func(*iwarp.DeviceUse) int64) Metric {
	value := func(_ *iwarp.DeviceTotals, u *iwarp.DeviceUse) float64 { return float64(f(u)) }
	return Metric{name, help, true, value}
}

// All returns all metrics but the errors, which are counted by their kind: see
// [iwarp.DeviceTotals].Errors.
func All() []Metric {
	type totals = iwarp.DeviceTotals
	return []Metric{
		{
			"connections", "Connections that stand.", true,
			func(t *totals, _ *iwarp.DeviceUse) float64 { return float64(t.Live) },
		},
		total("connections_total", "Connections ever made.", func(t *totals) uint64 { return t.Connections }),
		total("connections_ended_total", "Connections that have ended gracefully.",
			func(t *totals) uint64 { return t.EndedGracefully }),
		total("startups_failed_total", "Startups that failed.",
			func(t *totals) uint64 { return t.StartupsFailed }),
		total("startups_refused_total", "Startups that this end refused.",
			func(t *totals) uint64 { return t.StartupsRefused }),
		total("messages_sent_total", "DDP messages sent.", func(t *totals) uint64 { return t.MessagesSent }),
		total("messages_received_total", "DDP messages received.",
			func(t *totals) uint64 { return t.MessagesReceived }),
		total("payload_sent_octets_total", "Octets of payload sent.",
			func(t *totals) uint64 { return t.PayloadSent }),
		total("payload_received_octets_total", "Octets of payload received.",
			func(t *totals) uint64 { return t.PayloadReceived }),
		total("reads_served_total", "RDMA Reads of peers that were answered.",
			func(t *totals) uint64 { return t.ReadsServed }),
		total("atomics_served_total", "Atomics of peers that were answered.",
			func(t *totals) uint64 { return t.AtomicsServed }),
		total("fpdus_sent_total", "FPDUs sent.", func(t *totals) uint64 { return t.FPDUsSent }),
		total("fpdus_received_total", "FPDUs received.", func(t *totals) uint64 { return t.FPDUsReceived }),
		total("sent_octets_total", "Octets of FPDUs sent.", func(t *totals) uint64 { return t.OctetsSent }),
		total("received_octets_total", "Octets of FPDUs received.",
			func(t *totals) uint64 { return t.OctetsReceived }),
		use("queue_pairs", "Queue pairs that exist.", func(u *iwarp.DeviceUse) int64 { return u.QPs }),
		use("memory_regions", "Memory regions and windows that exist.",
			func(u *iwarp.DeviceUse) int64 { return u.MRs }),
		use("registered_octets", "Octets that are registered.", func(u *iwarp.DeviceUse) int64 { return u.Octets }),
		use("held_octets", "Octets that peers make the device hold.", func(u *iwarp.DeviceUse) int64 { return u.Held }),
	}
}

// ErrorsName and ErrorsHelp are of the count of connections that ended in error.
const (
	ErrorsName = "errors_total"
	ErrorsHelp = "Connections that ended in error, by code and by who found it."
)

// Labels returns what tells one kind of error from another: the code's layer, type and number in
// hexadecimal, as in "1/1/00", and who found it: "here", "peer", or "program" for an abort.
func Labels(k iwarp.ErrorKind) (code, by string) {
	by = "here"
	switch {
	case k.Own:
		by = "program"
	case k.Remote:
		by = "peer"
	}
	return fmt.Sprintf("%d/%d/%02x", uint8(k.Code.Layer()), k.Code.Type(), k.Code.Number()), by
}
