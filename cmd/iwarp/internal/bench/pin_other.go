//go:build !linux

package bench

import "errors"

func onOneCPU() error { return errors.ErrUnsupported }
