package prom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/go-iwarp/iwarp/metrics"
)

// The dashboard is JSON, and asks for metrics that exist.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Error("it is no JSON")
	}
	known := map[string]bool{"iwarp_" + metrics.ErrorsName: true}
	for _, m := range metrics.All() {
		known["iwarp_"+m.Name] = true
	}
	asked := regexp.MustCompile(`iwarp_[a-z_]+`).FindAllString(string(b), -1)
	if len(asked) < 10 {
		t.Errorf("it asks for %d metrics", len(asked))
	}
	for _, name := range asked {
		if !known[name] {
			t.Errorf("no metric %s", name)
		}
	}
}
