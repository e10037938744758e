/*
 * How many processors a rank has for itself.
 *
 * Ranks of a host share what their launcher may use, if it does not bind each to processors of its
 * own; and a control group may have a quota of less than there is.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_PROCESSORS_H
#define SMD_NCCL_PLUGIN_COLLNET_PROCESSORS_H

#include <sched.h>
#include <stdint.h>

struct smd_processors {
	unsigned usable; /* by the calling thread, which NCCL binds to those near its GPU */
	unsigned pool;   /* that all ranks of the host share */
	unsigned nranks;
	uint64_t quota; /* the rank's, in thousandths (quota.h) */
};

/* No more than an equal part of the pool, though the rank may use more of it: the others do too. 0:
 * less than one. */
unsigned smd_processors_part(const struct smd_processors *processors);

/* The launcher's, where the rank's are among them; else that is no guide, nor where it is not in
 * sight (NULL), and it is the whole host. */
unsigned smd_processors_pool(const cpu_set_t *own, const cpu_set_t *launchers, unsigned online);

/* The part of this rank. */
unsigned smd_processors_own(void);

#endif
