#include "textflag.h"

// As on amd64 (see fold_amd64.s), with blocks of 16 octets: eight registers move
// 128 octets further at each step, and at the end each is folded into the next.

// acc = acc.low * k.low + acc.high * k.high + add
#define FOLD(acc, k, t, add) \
	VPMULL  k.D1, acc.D1, t.Q1 \
	VPMULL2 k.D2, acc.D2, acc.Q1 \
	VEOR    t.B16, acc.B16, acc.B16 \
	VEOR    add.B16, acc.B16, acc.B16

// next = next + acc moved by k's distance
#define INTO(acc, k, t, next) \
	VPMULL  k.D1, acc.D1, t.Q1 \
	VPMULL2 k.D2, acc.D2, acc.Q1 \
	VEOR    t.B16, next.B16, next.B16 \
	VEOR    acc.B16, next.B16, next.B16

// V0-V7 hold the state, V30 the constants for 128 octets, V31 for 16.
#define SETUP \
	VLD1   (R3), [V30.D2, V31.D2] \
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]

#define START \
	VEOR V16.B16, V16.B16, V16.B16 \
	VMOV R4, V16.S[0] \
	VEOR V16.B16, V0.B16, V0.B16 \
	SUB  $128, R2

#define LOAD \
	VLD1.P 64(R1), [V8.B16, V9.B16, V10.B16, V11.B16] \
	VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]

#define STEP \
	FOLD(V0, V30, V16, V8) \
	FOLD(V1, V30, V17, V9) \
	FOLD(V2, V30, V18, V10) \
	FOLD(V3, V30, V19, V11) \
	FOLD(V4, V30, V20, V12) \
	FOLD(V5, V30, V21, V13) \
	FOLD(V6, V30, V22, V14) \
	FOLD(V7, V30, V23, V15) \
	SUB $128, R2

#define FINISH \
	INTO(V0, V31, V16, V1) \
	INTO(V1, V31, V16, V2) \
	INTO(V2, V31, V16, V3) \
	INTO(V3, V31, V16, V4) \
	INTO(V4, V31, V16, V5) \
	INTO(V5, V31, V16, V6) \
	INTO(V6, V31, V16, V7)

#define LAST \
	VMOV V7.D[0], R5 \
	VMOV V7.D[1], R6 \
	MOVW ZR, R4 \
	CRC32CX R5, R4 \
	CRC32CX R6, R4

// func foldPMULL(crc uint32, p *byte, n int, k *[4]uint64) uint32
TEXT ·foldPMULL(SB), NOSPLIT, $0-36
	MOVWU crc+0(FP), R4
	MOVD  p+8(FP), R1
	MOVD  n+16(FP), R2
	MOVD  k+24(FP), R3
	SETUP
	START

wide:
	CMP $128, R2
	BLO single
	LOAD
	STEP
	B   wide

single:
	FINISH

more:
	CMP    $16, R2
	BLO    done
	VLD1.P 16(R1), [V8.B16]
	FOLD(V7, V31, V16, V8)
	SUB    $16, R2
	B      more

done:
	LAST
	MOVW R4, ret+32(FP)
	RET

// func foldCopyPMULL(crc uint32, dst, p *byte, n int, k *[4]uint64) uint32
TEXT ·foldCopyPMULL(SB), NOSPLIT, $0-44
	MOVWU  crc+0(FP), R4
	MOVD   dst+8(FP), R0
	MOVD   p+16(FP), R1
	MOVD   n+24(FP), R2
	MOVD   k+32(FP), R3
	SETUP
	VST1.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)
	VST1.P [V4.B16, V5.B16, V6.B16, V7.B16], 64(R0)
	START

copywide:
	CMP    $128, R2
	BLO    copysingle
	LOAD
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R0)
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R0)
	STEP
	B      copywide

copysingle:
	FINISH

copymore:
	CMP    $16, R2
	BLO    copydone
	VLD1.P 16(R1), [V8.B16]
	VST1.P [V8.B16], 16(R0)
	FOLD(V7, V31, V16, V8)
	SUB    $16, R2
	B      copymore

copydone:
	LAST
	MOVW R4, ret+40(FP)
	RET
