//go:build unix

package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// execute becomes the program.
func execute(path string, args, env []string) error {
	return fmt.Errorf("%s: %w", path, unix.Exec(path, args, env))
}
