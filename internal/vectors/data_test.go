package vectors_test

import "strings"

// vector is a golden frame by name, in hexadecimal digits. They were made from the
// RFCs by a program that shares nothing with this module. The longer ones, whose
// subject is framing alone, are in package mpa.
var vector = map[string]string{
	// Startup frames.
	"req_v1":        "4d504120494420526571204672616d6540010000",           // MPA request, rev 1, C=1 M=0, no private data
	"req_v1_m_pd":   "4d504120494420526571204672616d65c0010003616263",     // MPA request, rev 1, M=1 C=1, private data "abc"
	"rep_v1":        "4d504120494420526570204672616d6540010000",           // MPA reply, rev 1, C=1 M=0
	"rep_v1_reject": "4d504120494420526570204672616d656001000462757379",   // MPA reply, rejected, private data "busy"
	"req_v0":        "4d504120494420526571204672616d65c0000000",           // request as an RDMAC peer sends it: rev 0, M=1 C=1
	"req_v2_p2p":    "4d504120494420526571204672616d6550020005c010c00878", // request rev 2 S=1: A=1 B=1 C=1 D=1 IRD=16 ORD=8, ULP data "x"
	"rep_v2_p2p":    "4d504120494420526570204672616d655002000480084010",   // reply rev 2 S=1: A=1 D=1 IRD=8 ORD=16
	"req_v2_cs":     "4d504120494420526571204672616d65500200043fff3fff",   // request rev 2 S=1, client-server (A=0), IRD=0x3fff ORD=0x3fff (ULP negotiates)

	// FPDUs that are right.
	"send_hello":         "001741430000000000000000000000010000000068656c6c6f000000b990b10c",                                                                                                         // FPDU, Send QN0 MSN1 MO0 L=1 "hello", no markers, CRC on
	"send_hello_nocrc":   "001741430000000000000000000000010000000068656c6c6f00000000000000",                                                                                                         // same, CRC off (field sent as zero)
	"send_hello_marker0": "00000000001741430000000000000000000000010000000068656c6c6f0000007a61e971",                                                                                                 // same as first FPDU of a marked stream
	"rfc5044_fig5":       "00000000002a41430000000000000000000000010000000000000000000000000000000000000000000000000000000052239983",                                                                 // RFC 5044 figure 5
	"rfc5044_fig6":       "002a4143000000000000000000000002000000000000001400000000000000000000000000000000000000000000000084925898",                                                                 // RFC 5044 figure 6: stream position 0x1ec
	"write":              "001bc140112233440000000000001000646972656374206461746120210000005169e5c7",                                                                                                 // RDMA Write STag 0x11223344 TO 0x1000, 13 octets
	"write0":             "000ec140000000010000000000000000ebd34c5f",                                                                                                                                 // zero-length RDMA Write (also an RTR), STag 1
	"read_req":           "002e414100000000000000010000000100000000aabbcc0100000000000020000000004011223344000000000000100007294a49",                                                                 // RDMA Read Request QN1 MSN1
	"read_req0":          "002e4141000000000000000100000002000000000000000100000000000000000000000000000001000000000000000056a69c09",                                                                 // zero-length RDMA Read Request (also an RTR)
	"read_rsp":           "004ec142aabbcc010000000000002000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f7d942756", // RDMA Read Response to STag 0xaabbcc01 TO 0x2000
	"read_rsp0":          "000ec14200000001000000000000000021a3e83e",                                                                                                                                 // zero-length RDMA Read Response
	"send0":              "0012414300000000000000000000000200000000accbdb8c",                                                                                                                         // zero-length Send (also an RTR), MSN 2
	"send_inv":           "00154144112233440000000000000003000000006279650021e3e75c",                                                                                                                 // Send with Invalidate 0x11223344, MSN 3
	"send_se":            "001641450000000000000000000000040000000064696e677ed0f531",                                                                                                                 // Send with Solicited Event, MSN 4
	"send_se_inv":        "0016414655667788000000000000000500000000646f6e678fa9fc2d",                                                                                                                 // Send with SE and Invalidate, MSN 5
	"imm":                "001a41480000000000000000000000060000000001020304050607083d6b1697",                                                                                                         // Immediate Data, MSN 6
	"imm_se":             "001a414900000000000000000000000700000000111213141516171863c0ae68",                                                                                                         // Immediate Data with SE, MSN 7
	"fetchadd_req":       "0046414a000000000000000100000003000000000000000000000077112233440000000000001008000000000000000500000000000000000000000000000000ffffffffffffffffae40640c",                 // Atomic Request FetchAdd QN1 MSN3
	"cmpswap_req":        "0046414a0000000000000001000000040000000000000002000000781122334400000000000010080000000000000009ffffffffffffffff000000000000002affffffffffffffff17c84cd1",                 // Atomic Request CmpSwap QN1 MSN4
	"atomic_rsp":         "001e414b0000000000000003000000010000000000000077000000000000002585a932eb",                                                                                                 // Atomic Response QN3 MSN1
	"term_rdma_prot":     "00464147000000000000000200000001000000000100e000002e414100000000000000010000000100000000aabbcc01000000000000200000000040112233440000000000001000fe38c750",                 // Terminate: RDMA/remote protection/invalid STag for that Read Request, M=D=R=1
	"term_rdma_op":       "002a4147000000000000000200000001000000000206c0000017414300000000000000000000000100000000f1952d3b",                                                                         // Terminate: RDMA/remote operation/unexpected opcode, M=D=1
	"term_ddp_tagged":    "00264147000000000000000200000001000000001101c000001bc1401122334400000000000010004835b0ed",                                                                                 // Terminate: DDP/tagged/base or bounds, M=D=1
	"term_ddp_untagged":  "002a4147000000000000000200000001000000001202c00000174143000000000000000000000001000000009b27256c",                                                                         // Terminate: DDP/untagged/no buffer, M=D=1
	"term_mpa_crc":       "0016414700000000000000020000000100000000200200007fe42585",                                                                                                                 // Terminate: LLP/MPA/CRC, no headers
	"term_mpa_ird":       "0016414700000000000000020000000100000000200600006540fb1b",                                                                                                                 // Terminate: LLP/MPA/insufficient IRD (RFC 6581), no headers
	"term_local":         "001641470000000000000002000000010000000000000000f9a26f1d",                                                                                                                 // Terminate: RDMA/local catastrophic, no headers

	// What must be accepted although no sender should send it.
	"pad_nonzero":             "001741430000000000000000000000010000000068656c6c6faabbcc691a5c8d",                                         // PAD aabbcc, CRC over it
	"marker_reserved_nonzero": "beef0000002a4143000000000000000000000001000000000000000000000000000000000000000000000000000000008c97f0a3", // figure 5 with reserved bits beef, CRC over them
	"fpduptr_low_bits":        "002a4143000000000000000000000002000000000000001700000000000000000000000000000000000000000000000023ce05ea", // figure 6 with FPDUPTR 0x0017: low bits ignored but in the CRC
	"crc_off_garbage":         "001741430000000000000000000000010000000068656c6c6f000000deadbeef",                                         // CRC field deadbeef on a C=0/C=0 connection
	"req_r_set":               "4d504120494420526571204672616d6560010000",                                                                 // request with R=1
	"req_res_set":             "4d504120494420526571204672616d654f010000",                                                                 // request rev 1 with the four low Res bits set
	"ddp_rsvd_set":            "00177d430000000000000000000000010000000068656c6c6f000000cb572ea4",                                         // DDP Rsvd bits set
	"rdmap_rsv_set":           "001741730000000000000000000000010000000068656c6c6f0000001e1ae130",                                         // RDMAP Rsv bits set
	"rsvdulp_set":             "00174143ffffffff00000000000000010000000068656c6c6f000000a883b577",                                         // Send whose Invalidate STag field is not zero
	"write0_bad_stag":         "000ec140ffffffffffffffffffffffff4cb6a2bb",                                                                 // zero-length Write, unknown STag, TO 2^64-1
	"term_local_anycode":      "0016414700000000000000020000000100000000005a0000623396dd",                                                 // Terminate local catastrophic with code 5a
	"term_r_no_header":        "002a4147000000000000000200000001000000000109e000000341441122334400000000000000030000000020117f2f",         // Terminate as Linux siw sends it for Send with Invalidate: M=D=R=1 but no RDMA header; length = payload only
	"term_reserved_set":       "001641470000000000000002000000010000000020021fff524ce4f0",                                                 // Terminate with reserved bits set

	// What must be refused.
	"bad_key":          "4c504120494420526571204672616d6540010000",                                                                                                                 // wrong key
	"req_to_initiator": "4d504120494420526571204672616d6540010000",                                                                                                                 // initiator gets a Request
	"rev3":             "4d504120494420526571204672616d6540030000",                                                                                                                 // Rev 3
	"pd_513":           "4d504120494420526571204672616d6540010201" + strings.Repeat("00", 513),                                                                                     // PD_Length 513
	"v2_s_short":       "4d504120494420526571204672616d6550020003616263",                                                                                                           // Rev 2, S=1, PD_Length 3
	"pd_truncated":     "4d504120494420526571204672616d654001000a00000000",                                                                                                         // PD_Length 10 and only 4 octets before EOF
	"bad_crc":          "001741430000000000000000000000010000000068656c6c6f000000b990b10d",                                                                                         // last CRC octet flipped
	"wrong_fpduptr":    "002a41430000000000000000000000020000000000000018000000000000000000000000000000000000000000000000e996c154",                                                 // figure 6 with FPDUPTR 0x18 and a CRC that covers it
	"short_ulpdu":      "000dc140000000000000000000000000a002e103",                                                                                                                 // ULPDU of 13 octets, shorter than any DDP header, good CRC
	"short_untagged":   "001141430000000000000000000000010000000080d8490a",                                                                                                         // untagged segment of 17 octets, good CRC
	"dv0_untagged":     "001340430000000000000000000000010000000078000000ad1424d0",                                                                                                 // DV=0
	"dv2_tagged":       "000fc24000000007000000000000000078000000cca99c6e",                                                                                                         // DV=2
	"to_wrap":          "0010c14000000007ffffffffffffffff78790000da570c5b",                                                                                                         // Write TO 2^64-1 length 2 on a valid STag
	"qn7":              "00134143000000000000000700000001000000007800000022530f1e",                                                                                                 // untagged on QN 7
	"msn0":             "001341430000000000000000000000000000000078000000512c0f78",                                                                                                 // first Send with MSN 0
	"msn_gap":          "00134143000000000000000000000002000000007800000030f69e95",                                                                                                 // first Send with MSN 2
	"mo_nonzero":       "001341430000000000000000000000010000000478000000a944746c",                                                                                                 // first segment with MO 4
	"rv2":              "001741830000000000000000000000010000000068656c6c6f00000025baf3fd",                                                                                         // RV=2
	"opcode15":         "0013414f0000000000000000000000010000000078000000c5e24bd0",                                                                                                 // opcode 15
	"send_tagged":      "000fc1430000000700000000000000007800000050cb0a9f",                                                                                                         // Send opcode on a tagged segment
	"write_untagged":   "0013414000000000000000000000000100000000780000002e7c2f9b",                                                                                                 // Write opcode on an untagged segment
	"send_qn1":         "0013414300000000000000010000000100000000780000007cc2e3bc",                                                                                                 // Send opcode on QN 1
	"read_req_27":      "002d41410000000000000001000000010000000000000001000000000000000000000001000000010000000000000000a6ea1d06",                                                 // Read Request header of 27 octets
	"term_3":           "001541470000000000000002000000010000000000000000b1b21b83",                                                                                                 // Terminate of 3 octets
	"imm_7":            "00194148000000000000000000000001000000000000000000000000edd8ca2d",                                                                                         // Immediate Data of 7 octets
	"imm_9":            "001b414800000000000000000000000100000000000000000000000000000000504988e2",                                                                                 // Immediate Data of 9 octets
	"atomic_unaligned": "0046414a000000000000000100000001000000000000000000000001000000070000000000001001000000000000000100000000000000000000000000000000ffffffffffffffffb19c9f15", // FetchAdd at TO 0x1001
	"atomic_op1":       "0046414a0000000000000001000000010000000000000001000000010000000700000000000010000000000000000001ffffffffffffffff0000000000000000ffffffffffffffff4cb31eb0", // atomic code 1 (reserved)
	"after_eof_mid":    "00174143000000000000",                                                                                                                                     // FPDU cut after 10 octets, then FIN
}
