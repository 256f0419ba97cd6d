//go:build !unix

package verbs

import "errors"

func execute(string, []string, []string) error { return errors.ErrUnsupported }
