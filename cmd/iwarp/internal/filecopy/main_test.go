package filecopy

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// asCommand makes the test's binary a command, for the tests that kill one.
const asCommand = "IWARP_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// Main runs a command line with this package's commands.
var Main = cmdtest.Main(func() any {
	return &struct {
		Cp    Copy  `cmd:""`
		Serve Serve `cmd:""`
	}{}
})

// serve serves dir until the test ends, and returns the server's URL, without a slash at
// the end, and how to stop it.
func serve(t *testing.T, dir string, flags ...string) (url string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	out, errs := cmdtest.NewLines(), cmdtest.NewLines()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", dir}, flags...), out, errs)
	}()
	stopped := false
	stop = func() string {
		if cancel(); !stopped {
			stopped = true
			if c := <-code; c != ui.ExitOK {
				t.Errorf("the server: exit code %d: %s%s", c, out, errs)
			}
		}
		return out.String() + errs.String()
	}
	t.Cleanup(func() { stop() })
	return "iwarp://" + out.Await(t, `(127\.0\.0\.1:\d+)`), stop
}

// cp runs "iwarp cp" and returns its exit code and all that it printed.
func cp(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out := cmdtest.NewLines()
	code := Main(cmdtest.Context(t), append([]string{"cp"}, args...), out, out)
	return code, out.String()
}

// mustCopy is cp of what has to go well.
func mustCopy(t *testing.T, args ...string) string {
	t.Helper()
	code, text := cp(t, args...)
	if code != ui.ExitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, text)
	}
	return text
}

// put writes a file of a test.
func put(t *testing.T, data []byte, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
