package otel_test

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/metrics"
	"github.com/go-iwarp/iwarp/metrics/otel"
)

// A reader of the SDK collects every metric once, until Unregister.
func TestRegister(t *testing.T) {
	d, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := d.NewPD()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pd.NewMR(make([]byte, 1000), 0, nil); err != nil {
		t.Fatal(err)
	}
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	r, err := otel.Register(provider.Meter("test"), d, "a")
	if err != nil {
		t.Fatal(err)
	}
	names := collect(t, reader)
	if len(names) != len(metrics.All()) || names["iwarp.registered_octets"] != 1000 ||
		names["iwarp.memory_regions"] != 1 {
		t.Errorf("%d metrics: %v", len(names), names)
	}
	if err := r.Unregister(); err != nil {
		t.Fatal(err)
	}
	if names := collect(t, reader); len(names) != 0 {
		t.Errorf("after Unregister: %v", names)
	}
}

func collect(t *testing.T, reader sdk.Reader) map[string]float64 {
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]float64)
	for _, s := range data.ScopeMetrics {
		for _, m := range s.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[float64]:
				names[m.Name] = d.DataPoints[0].Value
			case metricdata.Gauge[float64]:
				names[m.Name] = d.DataPoints[0].Value
			}
		}
	}
	return names
}
