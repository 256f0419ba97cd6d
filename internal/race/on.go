//go:build race

package race

// Enabled says that the program is built with the race detector.
const Enabled = true
