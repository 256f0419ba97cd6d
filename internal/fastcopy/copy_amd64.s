#include "textflag.h"

// PREFETCHW DI+disp32, of which b0 and b1 are the low octets: Go's assembler has
// no name for it.
#define PREFETCHW_DI(b0, b1) BYTE $0x0F; BYTE $0x0D; BYTE $0x8F; BYTE $b0; BYTE $b1; BYTE $0; BYTE $0

// func copyWide(dst, src *byte, n int)
//
// The first and the last 64 octets are copied wherever they lie. What is between
// is stored to whole cache lines: a store across two costs twice. Lines 1 KiB ahead
// are asked for: stores leave the processor in order, and each would wait for its
// line by itself.
TEXT ·copyWide(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	VMOVDQU64 (SI), Z4
	VMOVDQU64 -64(SI)(CX*1), Z5
	VMOVDQU64 Z5, -64(DI)(CX*1)
	VMOVDQU64 Z4, (DI)
	MOVQ DI, AX
	ANDQ $63, AX
	SUBQ $64, AX
	SUBQ AX, DI
	SUBQ AX, SI
	ADDQ AX, CX

loop:
	CMPQ CX, $256
	JB   single
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	PREFETCHT0 1152(SI)
	PREFETCHT0 1216(SI)
	PREFETCHW_DI(0x00, 0x04)
	PREFETCHW_DI(0x40, 0x04)
	PREFETCHW_DI(0x80, 0x04)
	PREFETCHW_DI(0xC0, 0x04)
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVDQA64 Z0, (DI)
	VMOVDQA64 Z1, 64(DI)
	VMOVDQA64 Z2, 128(DI)
	VMOVDQA64 Z3, 192(DI)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	JMP  loop

single:
	CMPQ CX, $64
	JB   done
	VMOVDQU64 (SI), Z0
	VMOVDQA64 Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP  single

done:
	VZEROUPPER
	RET
