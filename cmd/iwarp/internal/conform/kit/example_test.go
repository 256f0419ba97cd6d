package kit_test

import (
	"context"
	"fmt"
	"net"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/target"
)

// Test an endpoint: here the target of this module, over loopback.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoint, err := target.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- endpoint.Serve(ctx, ln) }()

	report, err := kit.Run(ctx, kit.Dial("tcp", ln.Addr().String()),
		&kit.Options{ULP: kit.Target, Run: "^invalidate/(shared|unknown)$"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Summary())
	cancel()
	<-done
	// Output: 2 cases: 2 passed, 0 failed, 0 not applicable, 0 inconclusive
}
