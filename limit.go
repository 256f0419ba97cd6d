package iwarp

import "fmt"

// limit is a number of a configuration and its range.
type limit struct {
	name     string
	value    *int
	def      int // what 0 stands for, or max if that is less
	min, max int
}

// settle fills in defaults and checks ranges.
func settle(limits ...limit) error {
	for _, l := range limits {
		if *l.value == 0 {
			*l.value = min(l.def, l.max)
		}
		if *l.value < l.min || *l.value > l.max {
			return fmt.Errorf("%w: %s is %d: between %d and %d", ErrLimit, l.name, *l.value, l.min, l.max)
		}
	}
	return nil
}
