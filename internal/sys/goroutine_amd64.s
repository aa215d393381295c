#include "textflag.h"

// func goroutine() uintptr
//
// ABI0: thread-local storage holds g on every operating system. (The internal ABI keeps it in R14, which the compiler
// does not promise to functions in assembly.)
TEXT ·goroutine(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
