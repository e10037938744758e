/*
 * How much this machine's processors have to do.
 *
 * Whoever asks owns what it asks with, and no other thread does. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_PROCESSORS_H
#define SMD_LIBSUMMAND_PROCESSORS_H

#include <stdint.h>

struct smd_processors {
	uint64_t looked_ns;
	uint64_t all; /* ticks of all of them until then, */
	uint64_t idle;
};

enum smd_load {
	SMD_LOAD_UNKNOWN, /* for now: too little time has gone since the last answer */
	SMD_LOAD_LIGHT,
	SMD_LOAD_FULL, /* hardly any time was idle since the last answer */
};

void smd_processors_begin(struct smd_processors *processors, uint64_t now_ns);

/* Light where the kernel does not say. An answer takes some 20 us, so ask now and then only. */
enum smd_load smd_processors_load(struct smd_processors *processors, uint64_t now_ns);

#endif
