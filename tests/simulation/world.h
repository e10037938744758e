/*
 * What the parts of a history share: its plan, and servers and ranks as they are now.
 */
#ifndef SMD_TESTS_SIMULATION_WORLD_H
#define SMD_TESTS_SIMULATION_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/loop.h"
#include "tests/simulation/aftermath.h"
#include "tests/simulation/plan.h"
#include "worker/summand.h"

struct smd_server;

struct simulated_server {
	unsigned process;
	struct event_base *base;
	struct smd_server *server;
	struct smd_wakeup ask;
	unsigned index;
	uint64_t since_ns; /* it was started */
	bool listening;
	bool ended;   /* by its drain; */
	bool stopped; /* now; */
	bool lost;    /* not there any more, by a fault, */
	bool again;   /* and another has been started in its place */
	bool harmed;  /* by any fault */
	pthread_t thread;
};

struct simulated_rank {
	int rank;
	bool dead;
	bool connected;
	int err; /* the first one that it was given, */
	char error[512];
	int done; /* operations that gave 0 */
	uint64_t table_bytes; /* of the first tables */
	bool over;
	smd_context *context;       /* NULL: it has not connected yet */
	smd_comm *comms[COMMS_MAX]; /* NULL: it has not joined it, or has left */
};

struct world {
	struct plan plan;
	struct simulated_server lives[SERVERS_MAX + FAULTS_MAX + ADDED_MAX];
	unsigned nlives;
	struct simulated_server *servers[SERVERS_MAX + ADDED_MAX]; /* the last life of each */
	unsigned nservers; /* that have begun, with those that were added */
	struct simulated_rank ranks[RANKS_MAX];
	int nconnected;
	bool may_fail;      /* a rank was killed, or a fault has left no server that is there, */
	bool may_be_cut;    /* or none that was in all ranks' tables, so that what fails may name
			       others */
	bool none_stays;    /* the last fault has left none that is there */
	unsigned nmeasured; /* tables that rank 0 wanted by what it has measured */
	unsigned nfaults_over;
	struct aftermath aftermath;
};

extern struct world world;

/* Says what was wrong, and ends the history. */
void world_fail(const char *what) __attribute__((noreturn));

#endif
