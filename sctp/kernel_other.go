//go:build !linux

package sctp

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/go-iwarp/iwarp"
)

var errNoKernel = fmt.Errorf(`iwarp: sctp: SCTP of the kernel is for Linux alone, this is %s: use "udp": %w`,
	runtime.GOOS, errors.ErrUnsupported)

func associateKernel(context.Context, string, string, *Config, bool) (*Association, error) {
	return nil, errNoKernel
}

func listenKernel(string, string, *iwarp.ListenConfig, *Config) (*iwarp.Listener, error) {
	return nil, errNoKernel
}
