//go:build !amd64 && !arm64

package crc32c

import "hash/crc32"

const (
	folds    = false
	foldName = ""
)

func short(crc uint32, p []byte) uint32 { return crc32.Update(crc, table, p) }

func words(crc uint32, p *[16]byte, _, _ uint64) uint32 { return short(crc, p[:]) }

func fold(crc uint32, _ []byte) uint32 { return crc }

func foldCopy(crc uint32, _, _ []byte) uint32 { return crc }

func features() []string { return nil }
