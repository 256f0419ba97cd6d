//go:build !linux

package cli

import "errors"

func onOneCPU() error { return errors.ErrUnsupported }
