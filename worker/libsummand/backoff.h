/* Exponential backoff: what was in vain is tried again after twice the time, up to a bound. */
#ifndef SMD_LIBSUMMAND_BACKOFF_H
#define SMD_LIBSUMMAND_BACKOFF_H

#include <stdint.h>

/* How long to wait now; the next wait is twice that. */
static inline uint64_t smd_backoff_next(uint64_t *pause_ns, uint64_t most_ns)
{
	uint64_t now_ns = *pause_ns;

	*pause_ns = 2 * now_ns < most_ns ? 2 * now_ns : most_ns;
	return now_ns;
}

#endif
