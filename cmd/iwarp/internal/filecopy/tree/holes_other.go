//go:build !(linux || darwin || freebsd)

package tree

import "os"

func nextData(*os.File, int64) (from, to int64, ok bool) { return 0, 0, false }
