//go:build !race

package filecopy

const raceDetector = false
