package conform

import (
	"context"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ping"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Main runs a command line with this package's command, with ping and inspect.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var commands struct {
		Conform Command         `cmd:""`
		Ping    ping.Command    `cmd:""`
		Inspect inspect.Command `cmd:""`
	}
	return ui.RunLine(ctx, &commands, "", args, stdout, stderr)
}
