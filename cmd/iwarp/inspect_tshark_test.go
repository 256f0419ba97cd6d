package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cli"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// hardCase is a capture that is hard to follow, and what two programs make of it.
// The notes go into the document; has and lacks prove them.
type hardCase struct {
	name    string
	play    func(*scene)
	flags   []string // of tshark, in place of --disable-heuristic rpcrdma_iwarp
	skip    int      // packets at the start that are taken out of the recording
	startup int      // startup frames that are in it
	fpdus   int
	tshark  judgement
	inspect judgement
}

type judgement struct {
	note       string
	has, lacks []string // regular expressions on the output
}

var hardCases = []hardCase{
	{
		name: "A startup frame that TCP cut in two", startup: 2, fpdus: 3,
		play: func(s *scene) {
			request := iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2,
				iwarptest.Enhanced(peerToPeer|16, rtrWrite|8, []byte("private")))
			s.raw(request[:18]...)
			s.raw(request[18:]...)
			s.answer(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2,
				iwarptest.Enhanced(peerToPeer|16, rtrWrite|8, nil))...)
			s.send(iwarptest.Tagged(0, true, 0, 0, nil))
			s.send(iwarptest.Send(1, octets(100)))
			s.reply(iwarptest.Send(1, octets(100)))
			s.close()
		},
		inspect: judgement{note: "put together", has: []string{`MPA Request: Rev 2.*\n.*IRD 16, ORD 8\n.*"private"`}},
	},
	{
		name: "Markers in one direction only", startup: 2, fpdus: 5,
		play: func(s *scene) {
			s.start(false, true, "")
			s.write(0, octets(2800), 1400)
			s.reply(iwarptest.Send(1, octets(1000)))
			s.reply(iwarptest.Send(2, octets(500)))
			s.close()
		},
		inspect: judgement{
			note: "follows both",
			has: []string{
				`Markers from the Initiator only`, `2 CRC good, no Markers; 2 Send`, `3 CRC good, 6 Markers`,
			},
		},
	},
	{
		name: "A Marker between two FPDUs, and one between PAD and CRC", startup: 2, fpdus: 4,
		play: func(s *scene) {
			s.start(true, true, "")                // 24 octets
			s.send(iwarptest.Send(1, octets(462))) // to 512
			s.send(iwarptest.Send(2, octets(484))) // Marker, PAD to 1020, CRC to 1024
			s.send(iwarptest.Send(3, octets(488))) // Marker, PAD to 1536, Marker, CRC
			s.close()
		},
		inspect: judgement{note: "each in its CRC", has: []string{`4 CRC good, 4 Markers`}},
	},
	{
		name: "Several FPDUs in a TCP segment, with Markers", startup: 2, fpdus: 4,
		play: func(s *scene) {
			s.start(true, true, "")
			s.send(iwarptest.Send(1, octets(100)), iwarptest.Send(2, octets(600)), iwarptest.Send(3, octets(300)))
			s.close()
		},
		inspect: judgement{
			note: "each on its own",
			has:  []string{`Send: 100 octets`, `Send: 600 octets`, `Send: 300 octets`, `4 CRC good, 3 Markers`},
		},
	},
	{
		name: "Short Sends", startup: 2, fpdus: 3, flags: []string{},
		play: func(s *scene) {
			s.start(false, false, "")
			s.send(iwarptest.Send(1, []byte("hi")))
			s.reply(iwarptest.Send(1, []byte("hello")))
			s.close()
		},
		tshark:  judgement{note: "takes them for RPC-over-RDMA"},
		inspect: judgement{note: "two Sends", has: []string{`Send: 2 octets`, `Send: 5 octets`}},
	},
	{
		name: "Immediate Data (RFC 7306)", startup: 2, fpdus: 3,
		play: func(s *scene) {
			s.start(false, false, "")
			s.send(iwarptest.Immediate(1, [8]byte{7: 0x42}))
			s.send(iwarptest.ImmediateSolicited(2, [8]byte{7: 0x43}))
			s.close()
		},
		tshark: judgement{
			note: "unknown opcodes", has: []string{`OpCode: Unknown \(0x8\)`, `OpCode: Unknown \(0x9\)`},
		},
		inspect: judgement{
			note: "with their values", has: []string{`Immediate Data: 0x42`, `Immediate Data with SE: 0x43`},
		},
	},
	{
		name: "Enhanced startup (RFC 6581)", startup: 2, fpdus: 1,
		play: func(s *scene) {
			s.start(false, false, "")
			s.close()
		},
		tshark: judgement{
			note: "S is a reserved bit, the block is private data",
			has:  []string{`Reserved: 0x10`, `Private data: 8010c008`}, lacks: []string{`IRD`, `ORD`},
		},
		inspect: judgement{
			note: "every bit, what was agreed, and the RTR",
			has: []string{
				`A=1 .* IRD 16, ORD 8`, `agreed: .*peer-to-peer, RTR by write, Reads at once: Initiator 8, Responder 4`,
				`\[RTR\]`,
			},
		},
	},
	{
		name: "A Terminate that echoes a Read Request", startup: 2, fpdus: 3,
		play: func(s *scene) {
			s.start(false, false, "")
			refused := iwarptest.ReadRequest(1, stagA, 0, 64, stagB, 0x1000)
			s.send(refused)
			s.reply(iwarptest.Terminate(0x0100, refused))
			s.close()
		},
		tshark: judgement{
			note: "shows 14 of the 18 octets of the DDP header, so the Read Request is off by four",
			has:  []string{`Terminated DDP Header: 414100000000000000010000000[01](?:\D|\n)`},
		},
		inspect: judgement{
			note: "both decoded, and the frame found",
			has: []string{
				`invalid STag \(0/1/00\)`,
				`RDMA Read Request, QN 1, MSN 1, MO 0, of 64 octets from STag 0x55667788, TO 0x1000`, `frame 7`,
			},
		},
	},
	{
		name: "A capture that begins in the middle of the connection", skip: 8, startup: 0, fpdus: 4,
		play: func(s *scene) {
			s.start(false, false, "")
			for i := range 3 {
				s.send(iwarptest.Send(uint32(i+1), octets(200)))
				s.reply(iwarptest.Send(uint32(i+1), octets(300)))
			}
			s.close()
		},
		inspect: judgement{
			note: "found by its CRCs", has: []string{`it began before the capture`, `Send: 300 octets, QN 0, MSN 2`},
		},
	},
	{
		name: "Rules that are broken", startup: 2, fpdus: 4,
		play:   broken,
		tshark: judgement{note: "names the bad CRC and no other", has: []string{`Bad CRC32`}},
		inspect: judgement{
			note: "names all four, with frame and octet",
			has:  []string{`frame .*MPA-7.1.2-14|rule broken: MPA-7.1.2-14`, `MPA-4.1-03`, `DDP-4.3-08`, `MPA-4.4-15`},
		},
	},
}

var malformed = regexp.MustCompile(`(?m)^\[Malformed Packet`)

// capture records a case.
func (c *hardCase) capture(t *testing.T) string {
	t.Helper()
	b := record(t, c.play)
	name := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(name, withoutPackets(b, c.skip), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// withoutPackets takes the first n packets out of a pcapng file.
func withoutPackets(b []byte, n int) (out []byte) {
	const packet = 6
	for len(b) > 0 {
		size := binary.LittleEndian.Uint32(b[4:])
		if n > 0 && binary.LittleEndian.Uint32(b) == packet {
			n--
		} else {
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return out
}

// check proves the notes on an output.
func (j *judgement) check(t *testing.T, who, output string) {
	t.Helper()
	for _, re := range j.has {
		if !regexp.MustCompile(re).MatchString(output) {
			t.Errorf("%s does not say %q:\n%s", who, re, output)
		}
	}
	for _, re := range j.lacks {
		if regexp.MustCompile(re).MatchString(output) {
			t.Errorf("%s says %q:\n%s", who, re, output)
		}
	}
}

func inspect(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(context.Background(), append([]string{"inspect"}, args...), &out, &errs); code != 0 ||
		errs.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	return out.String()
}

// counts says how much of a case was seen.
func (c *hardCase) counts(startup, fpdus, malformed int) string {
	s := fmt.Sprintf("%d of %d FPDUs", fpdus, c.fpdus)
	if c.startup > 0 {
		s = fmt.Sprintf("%d of %d startup frames, ", startup, c.startup) + s
	}
	if malformed > 0 {
		s += fmt.Sprintf(", %d packets \"malformed\"", malformed)
	}
	return s
}

// TestHardCases has both programs look at the cases, and keeps the table in
// docs/inspect.md. Without tshark it checks our side only.
func TestHardCases(t *testing.T) {
	tshark, version := findTshark(t)
	rows := make([]string, len(hardCases))
	t.Run("cases", func(t *testing.T) {
		for i := range hardCases {
			t.Run(hardCases[i].name, func(t *testing.T) {
				t.Parallel()
				rows[i] = hardCases[i].run(t, tshark, version)
			})
		}
	})
	if version != "4.0" || t.Failed() {
		t.Skipf("the table in docs/inspect.md is about tshark 4.0; here is %q", version)
	}
	document(t, "tshark",
		"| what the capture has | tshark 4.0 | iwarp inspect |\n| --- | --- | --- |\n"+strings.Join(rows, ""))
}

// run has both look at one case and gives its line of the table.
func (c *hardCase) run(t *testing.T, tshark, version string) string {
	name := c.capture(t)
	text := inspect(t, name)
	c.inspect.check(t, "inspect", text)
	ours := c.counts(strings.Count(text, "> MPA Re")+strings.Count(text, "- MPA Re"),
		strings.Count(inspect(t, "--hex", name), " FPDU at octet "), 0)
	if want := c.counts(c.startup, c.fpdus, 0); ours != want {
		t.Errorf("inspect finds %s, want %s:\n%s", ours, want, text)
	}
	if tshark == "" {
		return ""
	}
	if c.flags == nil {
		c.flags = []string{"--disable-heuristic", "rpcrdma_iwarp"}
	}
	out, err := exec.CommandContext(t.Context(), tshark,
		append([]string{"-r", name, "-n", "-V"}, c.flags...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	judged := string(out)
	if version == "4.0" {
		c.tshark.check(t, "tshark", judged)
	}
	theirs := c.counts(strings.Count(judged, "frame header\n"), strings.Count(judged, "ULPDU length:"),
		len(malformed.FindAllString(judged, -1)))
	return fmt.Sprintf("| %s | %s | %s |\n", c.name, cell(theirs, c.tshark.note), cell(ours, c.inspect.note))
}

func cell(counts, note string) string {
	if note != "" {
		counts += "; " + note
	}
	return counts
}

func findTshark(t *testing.T) (path, version string) {
	path, err := exec.LookPath("tshark")
	if err != nil {
		return "", "none"
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if m := regexp.MustCompile(`TShark \(Wireshark\) (\d+\.\d+)`).FindSubmatch(out); err == nil && m != nil {
		return path, string(m[1])
	}
	return path, "unknown"
}

// document compares a part of docs/inspect.md, or with -update puts it there.
func document(t *testing.T, part, want string) {
	t.Helper()
	name := filepath.Join("..", "..", "docs", "inspect.md")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+" -->\n", "<!-- end of "+part+" -->"
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok1 || !ok2:
		t.Errorf("docs/inspect.md has no place for %s", part)
	case got != want && *update:
		if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("docs/inspect.md, %s:\n%s\nwant (go test ./cmd/iwarp -update puts it there):\n%s", part, got, want)
	}
}
