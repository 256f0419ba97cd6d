package analysis_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// realCaptures is the folder with captures of other implementations, which are not
// part of the project: siw/ of Linux siw, wireshark-wiki/ of 2008.
func realCaptures(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("IWARP_CAPTURES")
	if dir == "" {
		t.Skip("IWARP_CAPTURES does not name a folder with captures")
	}
	return dir
}

func readReal(t *testing.T, path string) []analysis.Event {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := events(t, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// perRule counts the verdicts by rule, with the first frame of each.
func perRule(all []analysis.Event) string {
	count, first := map[string]int{}, map[string]uint64{}
	for _, v := range of[*analysis.Verdict](all) {
		if count[v.Rule]++; count[v.Rule] == 1 {
			first[v.Rule] = v.Frame
		}
	}
	var s []string
	for _, r := range slices.Sorted(maps.Keys(count)) {
		s = append(s, fmt.Sprintf("%s %d from %d", r, count[r], first[r]))
	}
	return strings.Join(s, "; ")
}

// The captures of 2008. The responder sends the first FPDU, one MSN counts the
// messages of all queues, the fields of Read Requests are in little-endian order,
// and in the long run with Markers these are so too, and stand elsewhere.
var of2008 = map[string]struct {
	rules    string
	messages int
}{
	"iwarp_connect/C00_M00":             {rules: "", messages: 0},
	"iwarp_connect/C00_M00_reject":      {rules: "", messages: 0},
	"iwarp_connect/C00_M11":             {rules: "", messages: 0},
	"iwarp_connect/C11_M00":             {rules: "", messages: 0},
	"iwarp_connect/C11_M11":             {rules: "", messages: 0},
	"iwarp_send_recv/snd_recv":          {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_crc":      {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_crc_mrkr": {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_inv":      {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_mrkr":     {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_se":       {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_send_recv/snd_recv_se_inv":   {rules: "MPA-7.1.2-14 1 from 7", messages: 2},
	"iwarp_rdma/write":                  {rules: "MPA-7.1.2-14 1 from 7", messages: 4},
	"iwarp_rdma/write_crc":              {rules: "MPA-7.1.2-14 1 from 7", messages: 4},
	"iwarp_rdma/read": {
		rules: "DDP-4.3-07 1 from 12; DDP-4.3-08 1 from 15; MPA-7.1.2-14 1 from 7; RDMAP-4.4-01 1 from 12", messages: 6,
	},
	"iwarp_rdma/read_write_long_run": {
		rules:    "DDP-4.3-07 1 from 39; DDP-4.3-08 1 from 81; MPA-7.1.2-14 1 from 7; RDMAP-4.4-01 20 from 39",
		messages: 63,
	},
	"iwarp_rdma/read_write_long_run_mrkr": {
		rules: "DDP-4.3-07 1 from 42; DDP-4.3-08 1 from 83; MPA-4.2-01 83 from 13; MPA-4.3-04 83 from 13; " +
			"MPA-7.1.2-14 1 from 9; RDMAP-4.4-01 20 from 42",
		messages: 63,
	},
}

func TestCapturesOf2008(t *testing.T) {
	dir := realCaptures(t)
	for name, want := range of2008 {
		t.Run(name, func(t *testing.T) {
			all := readReal(t, filepath.Join(dir, "wireshark-wiki", name))
			if got := perRule(all); got != want.rules {
				t.Errorf("\n got %s\nwant %s", got, want.rules)
			}
			if n := len(of[*analysis.Message](all)); n != want.messages {
				t.Errorf("%d messages, want %d", n, want.messages)
			}
			if got := anomalies(all); got != "" {
				t.Errorf("anomalies: %s", got)
			}
		})
	}
}

// What Linux siw does wrong: PAD is not zero when the data of a Send is in the work
// request, and a Terminate has M and D at the wrong end of their octet and the
// length of the payload alone.
func TestCapturesOfSiw(t *testing.T) {
	dir := realCaptures(t)
	files, err := filepath.Glob(filepath.Join(dir, "siw", "*.pcap"))
	if err != nil || len(files) == 0 {
		t.Skip("no captures of siw")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			all := readReal(t, path)
			for _, v := range of[*analysis.Verdict](all) {
				switch v.Rule {
				case "MPA-4.1-03":
					if v.Seen != "0x40" {
						t.Errorf("%+v", v)
					}
				case "RDMAP-4.8-04", "RDMAP-4.8-01", "RDMAP-4.8-05":
					if !strings.Contains(path, "rping") {
						t.Errorf("%+v", v)
					}
				default:
					t.Errorf("a false alarm? %+v", v)
				}
			}
			for _, a := range of[*analysis.Anomaly](all) {
				if a.What != analysis.AnomalyContradiction {
					t.Errorf("%+v", a)
				}
			}
			for _, m := range of[*analysis.Message](all) {
				if m.Partial || m.Opcode == 2 && m.Answers == nil {
					t.Errorf("%+v", m)
				}
				if x := m.Terminate; x != nil && (x.OffenderFrame != m.Frame-1 || x.Layer != 1 || x.Type != 1 ||
					x.Code != 1) {
					t.Errorf("%+v", x)
				}
			}
			hints := of[*analysis.Hint](all)
			if want := map[bool]string{true: "rping", false: "perftest"}[strings.Contains(path, "rping")]; len(
				hints,
			) != 1 || hints[0].Name != want {
				t.Errorf("hints: %+v", hints)
			}
		})
	}
}

// TestAgainstTshark compares frame by frame which messages there are,
// where tshark's own limits do not matter.
func TestAgainstTshark(t *testing.T) {
	dir := realCaptures(t)
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark")
	}
	var files []string
	for _, p := range []string{"siw/*.pcap", "wireshark-wiki/*/*"} {
		f, _ := filepath.Glob(filepath.Join(dir, p))
		files = append(files, f...)
	}
	total := 0
	for _, path := range files {
		if strings.HasSuffix(path, "long_run_mrkr") {
			continue // its Markers are nowhere where tshark looks for them
		}
		out, err := exec.Command(tshark, "-r", path, "--disable-heuristic", "rpcrdma_iwarp", "-Y", "iwarp_ddp", "-T",
			"fields",
			"-e", "frame.number", "-e", "iwarp_ddp.last_flag", "-e", "iwarp_rdma.opcode", "-E", "separator= ").Output()
		if err != nil {
			t.Errorf("%s: tshark: %v", path, err)
			continue
		}
		var want, got []string
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				t.Fatalf("%s: tshark says %q", path, line)
			}
			last, op := strings.Split(f[1], ","), strings.Split(f[2], ",")
			for i := range op {
				if last[i] == "1" || last[i] == "True" {
					var n int
					if _, err := fmt.Sscan(op[i], &n); err != nil {
						t.Fatal(err)
					}
					want = append(want, fmt.Sprintf("%s opcode %d", f[0], n))
				}
			}
		}
		for _, m := range of[*analysis.Message](readReal(t, path)) {
			got = append(got, fmt.Sprintf("%d opcode %d", m.Frame, m.Opcode))
		}
		total += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", filepath.Base(path), got, want)
		}
	}
	if len(files) > 0 && total < 100 {
		t.Errorf("only %d messages were compared", total)
	}
}
