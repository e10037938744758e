/* A CUDA driver of which every call ends the process: what NCCL's threads must not make. */
#include <stdio.h>
#include <stdlib.h>

#include "worker/libsummand/cuda_driver.h"

#define TEXT(name) #name

/* The names in C differ from those that are exported, because cuda.h declares these. */
#define X(name)                                                                                    \
	__attribute__((visibility("default"))) void forbidden_##name(void) __asm__(TEXT(name));    \
	void forbidden_##name(void)                                                                \
	{                                                                                          \
		fprintf(stderr, "%s: must not be called here\n", TEXT(name));                      \
		abort();                                                                           \
	}
CUDA_CALLS(X)
CUDA_NEWER_CALLS(X)
#undef X
