/*
 * What becomes of a history after its last fault: operations go on until every server that is there
 * is in the table of every communicator, with whole windows, which must be so in time.
 */
#ifndef SMD_TESTS_SIMULATION_AFTERMATH_H
#define SMD_TESTS_SIMULATION_AFTERMATH_H

#include <stdint.h>

#include "worker/summand.h"

struct aftermath {
	int decided;       /* operations before this one are begun by all, */
	int last;          /* and none from this one on; 0: not known yet */
	unsigned tables;   /* that all communicators have had, */
	uint64_t table_ns; /* and when the last one was seen */
	uint64_t since_ns; /* what was looked for is awaited; 0: nobody has looked, */
	uint64_t took_ns;  /* and until it was so */
};

/* Rank 0, when no operation is in flight, and no fault is left to come, before that operation.
 * `living`: the servers that are there, by number. NULL, or what has not become so within
 * `limit_ns`; of windows, long after the last table, to whose streams they give way. */
const char *aftermath_look(struct aftermath *aftermath, smd_comm *const *comms, unsigned ncomms,
	uint64_t living, unsigned window, uint64_t limit_ns);

/* What a program in poll mode does while it waits for something else: others may need it. */
void aftermath_poll(smd_comm *comm);

#endif
