package conform

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Main runs a command line with this package's command, with ping and inspect.
var Main = cmdtest.Main(func() any {
	return &struct {
		Conform Command         `cmd:""`
		Ping    ping.Command    `cmd:""`
		Inspect inspect.Command `cmd:""`
	}{}
})
