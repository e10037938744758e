/* What tests of tuning begin with: four ranks, two servers with a shard each, and what comes of
 * these. */
#ifndef SMD_TESTS_TUNING_SETUP_H
#define SMD_TESTS_TUNING_SETUP_H

#include <stdint.h>

#include "worker/libsummand/tuning.h"

enum { BYTES = 1 << 20, MS = 1000000 };

/* What processors have been waited for, in ns, whatever else this machine does. */
extern uint64_t tuning_waited_ns;

/* At one second, with so many Mbit/s each. */
void tuning_start(struct smd_tuning *tuning, uint32_t first, uint32_t second, int scale);

/* An operation of which each shard has come in so many chunks after so many milliseconds. */
void tuning_slices(struct smd_tuning *tuning, unsigned chunks, const unsigned ms[2]);

#endif
