#include "textflag.h"

// func ticks() uint64
//
// The time-stamp counter. It is not serialising: some instructions more or less do not matter here.
TEXT ·ticks(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
