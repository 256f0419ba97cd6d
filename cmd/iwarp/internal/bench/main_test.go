package bench

import (
	"context"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Main runs a command line with this package's command.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var commands struct {
		Bench Command `cmd:""`
	}
	return ui.RunLine(ctx, &commands, "", args, stdout, stderr)
}
