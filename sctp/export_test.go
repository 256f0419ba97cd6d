package sctp

// SetChecksum is for tests that change packets on their way.
func SetChecksum(p []byte) { setChecksum(p) }
