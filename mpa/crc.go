package mpa

import "github.com/go-iwarp/iwarp/internal/crc32c"

// updateCRC adds b to a CRC32c; the empty sum is 0. This file is the one place
// where a CRC is computed
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.4). The value goes over the
// wire least significant octet first.
// Rule: MPA-4.4-11
func updateCRC(crc uint32, b []byte) uint32 { return crc32c.Update(crc, b) }

// copyCRC copies p to b, which has the room, and adds it to a CRC32c in the same
// pass.
func copyCRC(b []byte, crc uint32, p []byte) uint32 { return crc32c.Copy(crc, b, p) }

// wordsCRC adds 16 octets that are also at hand as two words, least significant octet
// first, to a CRC32c.
func wordsCRC(crc uint32, p *[16]byte, a, b uint64) uint32 { return crc32c.Words(crc, p, a, b) }
