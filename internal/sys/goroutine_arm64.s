#include "textflag.h"

// func goroutine() uintptr
//
// The assembler's name g is the register that holds it (R28).
TEXT ·goroutine(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
