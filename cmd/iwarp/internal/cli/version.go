package cli

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// versionCmd is "iwarp version".
type versionCmd struct {
	JSON bool `name:"json" help:"Print one JSON object: event, version, commit, go, platform, rfcs."`
}

// versionEvent is what it prints.
type versionEvent struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	RFCs     []rfc  `json:"rfcs"`
}

type rfc struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Room   string `json:"package"`
}

var rfcs = []rfc{
	{5040, "RDMAP: the operations, their order, Terminate", "rdmap"},
	{7306, "RDMAP extensions: atomics, Immediate Data", "rdmap"},
	{5041, "DDP: data straight into the right buffer", "ddp"},
	{5044, "MPA: frames, Markers and CRC32c on TCP", "mpa"},
	{6581, "MPA revision 2: peer-to-peer, Read depths", "mpa"},
	{6580, "the registries of error codes and numbers", "protocol"},
}

// Run prints the version.
func (c *versionCmd) Run(out *ui.Output) error {
	b := ui.Build()
	e := versionEvent{
		Version: b.Version, Commit: b.Commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		RFCs: rfcs,
	}
	out.JSON = c.JSON
	out.Emit(e)
	return nil
}

func (e versionEvent) EventKind() string { return "version" }

func (e versionEvent) Text() string {
	var b strings.Builder
	b.WriteString("iwarp " + e.Version + "\n")
	if e.Commit != "" {
		b.WriteString("commit " + e.Commit + "\n")
	}
	b.WriteString(e.Go + " " + e.Platform + "\n")
	for _, r := range e.RFCs {
		b.WriteString("\nRFC " + strconv.Itoa(r.Number) + "  " + r.Title)
	}
	return b.String()
}
