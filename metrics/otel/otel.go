// Package otel observes the counters of iWARP devices for OpenTelemetry.
package otel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/metrics"
)

// Register has a meter observe a device's metrics, named iwarp.connections and so on. name is
// the attribute device of each. The caller ends that by Unregister of what it returns.
func Register(meter metric.Meter, device *iwarp.Device, name string) (metric.Registration, error) {
	all := metrics.All()
	counters := make([]metric.Float64Observable, len(all), len(all)+1)
	observed := make([]metric.Observable, len(all), len(all)+1)
	for i, m := range all {
		var err error
		n := "iwarp." + strings.TrimSuffix(m.Name, "_total")
		switch {
		case m.Name == "connections_total":
			n = "iwarp.connections.made"
			fallthrough
		case !m.Gauge:
			counters[i], err = meter.Float64ObservableCounter(n, metric.WithDescription(m.Help))
		default:
			counters[i], err = meter.Float64ObservableGauge(n, metric.WithDescription(m.Help))
		}
		if err != nil {
			return nil, err
		}
		observed[i] = counters[i]
	}
	errs, err := meter.Int64ObservableCounter("iwarp.errors", metric.WithDescription(metrics.ErrorsHelp))
	if err != nil {
		return nil, err
	}
	of := attribute.String("device", name)
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t, u := device.Totals(), device.Use()
		for i, m := range all {
			o.ObserveFloat64(counters[i], m.Value(&t, &u), metric.WithAttributes(of))
		}
		for k, n := range t.Errors {
			code, by := metrics.Labels(k)
			o.ObserveInt64(errs, int64(n),
				metric.WithAttributes(of, attribute.String("code", code), attribute.String("by", by)))
		}
		return nil
	}, append(observed, errs)...)
}
