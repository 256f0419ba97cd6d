#include "textflag.h"

// PREFETCHW DI+disp32, of which b0 and b1 are the low octets: Go's assembler has
// no name for it.
#define PREFETCHW_DI(b0, b1) BYTE $0x0F; BYTE $0x0D; BYTE $0x8F; BYTE $b0; BYTE $b1; BYTE $0; BYTE $0

// The CRC is linear: a block of 16 octets may be replaced by its product with a
// power of x, modulo the polynomial, added to a block further on. Each lane of
// 128 bits is folded so: its low half times one constant, its high half times the
// other. Four registers of four lanes move 256 octets further at each step; at
// the end all lanes are folded into the last, on which the crc32 instruction
// finishes.

// acc = acc.low * k.low + acc.high * k.high + add
#define FOLD(acc, k, t, add) \
	VPCLMULQDQ $0x00, k, acc, t \
	VPCLMULQDQ $0x11, k, acc, acc \
	VPTERNLOGQ $0x96, add, t, acc

// next = next + acc moved by k's distance
#define INTO(acc, k, t, next) \
	VPCLMULQDQ $0x00, k, acc, t \
	VPCLMULQDQ $0x11, k, acc, acc \
	VPTERNLOGQ $0x96, acc, t, next

// Z0-Z3 hold the state, Z16 the constants for 256 octets, Z17 for 64, X18 for 16.
#define SETUP \
	VBROADCASTI64X2 (DX), Z16 \
	VBROADCASTI64X2 16(DX), Z17 \
	VMOVDQU64 32(DX), X18 \
	VMOVD AX, X4 \
	VMOVDQU64 (SI), Z0 \
	VMOVDQU64 64(SI), Z1 \
	VMOVDQU64 128(SI), Z2 \
	VMOVDQU64 192(SI), Z3

#define FINISH \
	INTO(Z0, Z17, Z4, Z1) \
	INTO(Z1, Z17, Z4, Z2) \
	INTO(Z2, Z17, Z4, Z3)

#define LANES \
	VEXTRACTI64X2 $1, Z3, X5 \
	VEXTRACTI64X2 $2, Z3, X6 \
	VEXTRACTI64X2 $3, Z3, X7 \
	INTO(X3, X18, X4, X5) \
	INTO(X5, X18, X4, X6) \
	INTO(X6, X18, X4, X7) \
	VMOVQ X7, R8 \
	VPEXTRQ $1, X7, R9 \
	XORL AX, AX \
	CRC32Q R8, AX \
	CRC32Q R9, AX \
	VZEROUPPER

// The octets that are left, fewer than 64 after folding: AX is the state, SI and CX
// where they are and how many.
#define REST(eight, four, two, one, done) \
eight: \
	CMPQ CX, $8 \
	JB   four \
	CRC32Q (SI), AX \
	ADDQ $8, SI \
	SUBQ $8, CX \
	JMP  eight \
four: \
	TESTQ $4, CX \
	JZ   two \
	CRC32L (SI), AX \
	ADDQ $4, SI \
two: \
	TESTQ $2, CX \
	JZ   one \
	CRC32W (SI), AX \
	ADDQ $2, SI \
one: \
	TESTQ $1, CX \
	JZ   done \
	CRC32B (SI), AX \
done:

// The same, and a copy to DI.
#define RESTCOPY(eight, four, two, one, done) \
eight: \
	CMPQ CX, $8 \
	JB   four \
	MOVQ (SI), R8 \
	MOVQ R8, (DI) \
	CRC32Q R8, AX \
	ADDQ $8, SI \
	ADDQ $8, DI \
	SUBQ $8, CX \
	JMP  eight \
four: \
	TESTQ $4, CX \
	JZ   two \
	MOVL (SI), R8 \
	MOVL R8, (DI) \
	CRC32L R8, AX \
	ADDQ $4, SI \
	ADDQ $4, DI \
two: \
	TESTQ $2, CX \
	JZ   one \
	MOVW (SI), R8 \
	MOVW R8, (DI) \
	CRC32W R8, AX \
	ADDQ $2, SI \
	ADDQ $2, DI \
one: \
	TESTQ $1, CX \
	JZ   done \
	MOVB (SI), R8 \
	MOVB R8, (DI) \
	CRC32B R8, AX \
done:

// func shortSSE42(crc uint32, p *byte, n int) uint32
TEXT ·shortSSE42(SB), NOSPLIT, $0-28
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	REST(eight, four, two, one, done)
	MOVL AX, ret+24(FP)
	RET

// func wordsSSE42(crc uint32, a, b uint64) uint32
TEXT ·wordsSSE42(SB), NOSPLIT, $0-28
	MOVL   crc+0(FP), AX
	CRC32Q a+8(FP), AX
	CRC32Q b+16(FP), AX
	MOVL   AX, ret+24(FP)
	RET

// func foldAVX512(crc uint32, p *byte, n int, k *[6]uint64) uint32
TEXT ·foldAVX512(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX
	SETUP
	VPXORQ Z4, Z0, Z0
	ADDQ $256, SI
	SUBQ $256, CX

wide:
	CMPQ CX, $256
	JB   single
	VMOVDQU64 (SI), Z8
	VMOVDQU64 64(SI), Z9
	VMOVDQU64 128(SI), Z10
	VMOVDQU64 192(SI), Z11
	FOLD(Z0, Z16, Z4, Z8)
	FOLD(Z1, Z16, Z5, Z9)
	FOLD(Z2, Z16, Z6, Z10)
	FOLD(Z3, Z16, Z7, Z11)
	ADDQ $256, SI
	SUBQ $256, CX
	JMP  wide

single:
	FINISH

more:
	CMPQ CX, $64
	JB   done
	VMOVDQU64 (SI), Z8
	FOLD(Z3, Z17, Z4, Z8)
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  more

done:
	LANES
	REST(eight, four, two, one, end)
	MOVL AX, ret+32(FP)
	RET

// func foldCopyAVX512(crc uint32, dst, p *byte, n int, k *[6]uint64) uint32
TEXT ·foldCopyAVX512(SB), NOSPLIT, $0-44
	MOVL crc+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ p+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), DX
	SETUP
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	VMOVDQU64 Z2, 128(DI)
	VMOVDQU64 Z3, 192(DI)
	VPXORQ Z4, Z0, Z0
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX

copywide:
	CMPQ CX, $256
	JB   copysingle
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	PREFETCHT0 1152(SI)
	PREFETCHT0 1216(SI)
	PREFETCHW_DI(0x00, 0x04) // 1 KiB ahead, since stores leave in order
	PREFETCHW_DI(0x40, 0x04)
	PREFETCHW_DI(0x80, 0x04)
	PREFETCHW_DI(0xC0, 0x04)
	VMOVDQU64 (SI), Z8
	VMOVDQU64 64(SI), Z9
	VMOVDQU64 128(SI), Z10
	VMOVDQU64 192(SI), Z11
	VMOVDQU64 Z8, (DI)
	VMOVDQU64 Z9, 64(DI)
	VMOVDQU64 Z10, 128(DI)
	VMOVDQU64 Z11, 192(DI)
	FOLD(Z0, Z16, Z4, Z8)
	FOLD(Z1, Z16, Z5, Z9)
	FOLD(Z2, Z16, Z6, Z10)
	FOLD(Z3, Z16, Z7, Z11)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	JMP  copywide

copysingle:
	FINISH

copymore:
	CMPQ CX, $64
	JB   copydone
	VMOVDQU64 (SI), Z8
	VMOVDQU64 Z8, (DI)
	FOLD(Z3, Z17, Z4, Z8)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP  copymore

copydone:
	LANES
	RESTCOPY(eight, four, two, one, end)
	MOVL AX, ret+40(FP)
	RET
