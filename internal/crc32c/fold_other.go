//go:build !amd64 && !arm64

package crc32c

const (
	folds    = false
	foldName = ""
)

func fold(crc uint32, _ []byte) uint32 { return crc }

func foldCopy(crc uint32, _, _ []byte) uint32 { return crc }

func features() []string { return nil }
