/*
 * A transport for tests whose lanes are made over TCP's, as RDMA's are (transport.h: offer, join),
 * and need no device: what a lane says goes on over its carrier. Or they connect by themselves, as
 * RDMA's do with the connection manager. What tests make go wrong is set here, before there are
 * lanes, and counted.
 */
#ifndef SMD_TRANSPORT_TESTING_CARRIED_H
#define SMD_TRANSPORT_TESTING_CARRIED_H

#include <stdatomic.h>
#include <stdbool.h>

struct smd_carried_trials {
	atomic_bool itself;    /* a worker's lanes connect by themselves, to who listens over TCP */
	atomic_uint refuse;    /* so many of the first offers, at either end, cannot be made */
	atomic_uint no_path;   /* so many of the first that answer find no way to the other end */
	atomic_uint refuse_later; /* so many of those that are made later cannot be, */
	atomic_uint late;         /* and so many not in time */
	atomic_uint open;         /* after so many answers that open */
	atomic_uint time_out;     /* so many are joined, or connected, and never open, */
	atomic_uint time_out_ms;  /* which shows so much later; */
	atomic_uint silent;       /* so many that connect by themselves say nothing at all */
	atomic_uint answering; /* lanes of those that answer, which have not opened or ended, */
	atomic_uint most;      /* and the most that there were */
};
extern struct smd_carried_trials smd_carried_trials;

#endif
