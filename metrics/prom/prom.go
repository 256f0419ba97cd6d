// Package prom collects the counters of iWARP devices for Prometheus. dashboard.json, beside its source, is a
// dashboard for Grafana that shows them.
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/metrics"
)

// Collector is a [prometheus.Collector] of one device.
type Collector struct {
	device *iwarp.Device
	all    []metrics.Metric
	descs  []*prometheus.Desc
	errors *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of the device's metrics, named iwarp_ and so on. name is
// the label device of each, so that a program may have several devices.
func NewCollector(device *iwarp.Device, name string) *Collector {
	c := &Collector{device: device, all: metrics.All()}
	labels := prometheus.Labels{"device": name}
	for _, m := range c.all {
		c.descs = append(c.descs, prometheus.NewDesc("iwarp_"+m.Name, m.Help, nil, labels))
	}
	c.errors = prometheus.NewDesc("iwarp_"+metrics.ErrorsName, metrics.ErrorsHelp, []string{"code", "by"}, labels)
	return c
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
	ch <- c.errors
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	t, u := c.device.Totals(), c.device.Use()
	for i, m := range c.all {
		kind := prometheus.CounterValue
		if m.Gauge {
			kind = prometheus.GaugeValue
		}
		ch <- prometheus.MustNewConstMetric(c.descs[i], kind, m.Value(&t, &u))
	}
	for k, n := range t.Errors {
		code, by := metrics.Labels(k)
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n), code, by)
	}
}
