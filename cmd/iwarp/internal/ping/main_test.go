package ping

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Main runs a command line with this package's command.
var Main = cmdtest.Main(func() any {
	return &struct {
		Ping Command `cmd:""`
	}{}
})
