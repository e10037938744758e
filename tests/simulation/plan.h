/*
 * What a history consists of: sizes, operations and faults, drawn from its seed before it begins.
 */
#ifndef SMD_TESTS_SIMULATION_PLAN_H
#define SMD_TESTS_SIMULATION_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RANKS_MAX            4
#define SERVERS_MAX          4 /* that ranks are told of when they begin, */
#define ADDED_MAX            2 /* and others */
#define COMMS_MAX            3
#define OPERATIONS_MAX       120
#define AFTERMATH_OPERATIONS 8
#define LOSSES               100 /* of PLAN_LOSSES */
#define FAULTS_MAX           (LOSSES + ADDED_MAX)
#define DEPTH_MAX            4 /* operations in flight at a rank */

enum plan_kind {
	PLAN_ANY,     /* faults come at operations */
	PLAN_CHANGES, /* they come while ranks agree on another table */
	PLAN_LATE,    /* some ranks begin later than others, and faults come meanwhile */
	PLAN_LOSSES,  /* lanes end again and again, for as long as the history lasts */
	PLAN_MORE,    /* one of these, with servers that are added, segments, and measured tables */
	PLAN_LARGE,   /* any of the others but losses, with operations that count as large */
};

enum collective { ALLREDUCE, REDUCE, BROADCAST, COLLECTIVES };

struct planned_operation {
	enum collective collective;
	size_t count; /* of float32 */
	int root;
	bool in_place;
	unsigned comm;
};

enum fault_kind {
	SERVER_KILLED,
	SERVER_STOPPED, /* for a while, as by SIGSTOP */
	SERVER_DRAINED, /* as by SIGTERM */
	LANES_CUT,      /* between one rank and one server */
	RANK_KILLED,
	SERVER_ADDED, /* the next of those that no rank was told of; no fault */
	FAULT_KINDS
};

enum change { CHANGE_ANY, CHANGE_RETURN, CHANGE_DRAIN, CHANGES };

struct planned_fault {
	enum fault_kind kind;
	unsigned server;
	int rank;
	int operation; /* when rank 0 begins it; or one of these: */
#define OTHERS_WAIT -4 /* when all ranks that are not late have their contexts */
#define AT_MESSAGE  -3 /* when some rank says such a thing: */
#define AT_START    -2
#define CONNECTED   -1     /* when all ranks have their contexts */
	uint8_t message;   /* a kind of epoch_message.h, */
	enum change about; /* of such a change, */
	unsigned messages; /* and so many were said before */
	uint64_t after_ns;
	uint64_t for_ns;
	unsigned keep;    /* frames on their way that still arrive */
	bool named_first; /* a server that is added: before it listens, for_ns later */
	bool again;       /* a server that is gone: another is started in its place after for_ns */
};

struct plan {
	uint64_t seed;
	int nranks;
	unsigned nservers;
	unsigned nadded; /* at most */
	unsigned shards;
	unsigned chunk_bytes;
	unsigned window;
	size_t memory_bytes; /* of a server */
	bool scarce;         /* that is so little that shards refuse other tables */
	unsigned refusals; /* a rank has no memory for one candidate in so many; 0: it always has */
	unsigned delay_ms; /* most that a frame is late */
	unsigned rate_least_mbps; /* of a lane; 0: as fast as can be */
	unsigned rate_most_mbps;
	size_t segment_bytes; /* 0: as the product's */
	unsigned larger; /* operations are taken for so many times as large as they are (history.h) */
	bool measured;        /* rank 0 wants what it has measured, not `changes`, */
	unsigned waited; /* while processors were waited for in so many hundredths of the time */
	unsigned heartbeat_ms;
	unsigned ncomms;
	unsigned changes; /* rank 0 wants another table before one operation in so many; 0: never */
	bool spares;      /* these tables deal nothing to some shards of servers that serve, */
	bool leaves_out;  /* or to some servers */
	unsigned spare;   /* servers that are, as bits: nothing is dealt to them at first */
	bool poll[RANKS_MAX];
	int depth[RANKS_MAX]; /* operations that the rank has in flight */
	unsigned pause_us[RANKS_MAX];
	uint64_t late_ns[RANKS_MAX]; /* the rank begins so long after the others have; 0: with them
				      */
	int noperations;
	struct planned_operation operations[OPERATIONS_MAX];
	bool loses;     /* all the time, so what tables take must not grow */
	bool aftermath; /* these go on, in turn, long after the last fault */
	struct planned_operation afterwards[AFTERMATH_OPERATIONS];
	unsigned nfaults;
	struct planned_fault faults[FAULTS_MAX];
};

/* Which operation has that number; those of the aftermath follow the others. */
const struct planned_operation *plan_operation(const struct plan *plan, int number);
void plan_draw(struct plan *plan, enum plan_kind kind, uint64_t seed);
void plan_print(const struct plan *plan, FILE *out);

#endif
