package mpa

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// updateCRC adds b to a CRC32c; the empty sum is 0. It is the one place where a
// CRC is computed (https://www.rfc-editor.org/rfc/rfc5044#section-4.4). The value
// goes over the wire least significant octet first.
func updateCRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }
