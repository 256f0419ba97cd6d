package inspect

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Main runs a command line with this package's command, and with ping.
var Main = cmdtest.Main(func() any {
	return &struct {
		Inspect Command      `cmd:""`
		Ping    ping.Command `cmd:""`
	}{}
})
