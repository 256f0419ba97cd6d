//go:build race

package conform_test

const raceEnabled = true
