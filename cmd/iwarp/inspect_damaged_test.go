package main

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cli"
)

// TestDamaged has octets of good captures changed, and captures cut, and all that
// inspect can print printed: it must come to an end that it has an exit code for.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	writeScenes(t, dir)
	rnd := rand.New(rand.NewPCG(1, 2)) // the same in every run
	damaged := filepath.Join(dir, "damaged")
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		whole, err := os.ReadFile(filepath.Join(dir, name+".pcapng"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			b := bytes.Clone(whole)
			for range rnd.IntN(8) {
				b[rnd.IntN(len(b))] ^= byte(1 + rnd.IntN(255))
			}
			if i%4 == 0 {
				b = b[:rnd.IntN(len(b))]
			}
			if err := os.WriteFile(damaged, b, 0o600); err != nil {
				t.Fatal(err)
			}
			page := filepath.Join(dir, "page.html")
			for _, args := range [][]string{
				{"--hex"}, {"--json", "--hex", "--html", page}, {"--verdict"}, {"--filter", "error"},
			} {
				var out, errs bytes.Buffer
				code := cli.Main(context.Background(), append(append([]string{"inspect"}, args...), damaged), &out,
					&errs)
				complaint := strings.TrimPrefix(errs.String(), "iwarp: note: nothing in the capture matches --filter\n")
				switch {
				case code == ui.ExitUsage, code == ui.ExitOK &&
					complaint != "", code == ui.ExitFailed && errs.Len()+out.Len() == 0,
					code == ui.ExitRuleBroken && args[0] != "--verdict":
					t.Fatalf("%s, damage %d, %v: exit code %d, stderr %q", name, i, args, code, &errs)
				}
			}
		}
	}
}
