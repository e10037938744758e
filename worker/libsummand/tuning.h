/*
 * What rank 0 sees of its operations, and which table they should have therefore: rates
 * (measured_rate.h), weights (balance.h), which servers (server_choice.h), the number of their
 * shards (shard_choice.h), the size of chunks (chunk_search.h), and what goes from rank to rank
 * instead (exchange_choice.h), of which one is changed at a time. There are only so many tables in
 * a minute, whatever is seen.
 *
 * Shards that nothing is dealt to are in no other account: those in use have *places*, in the order
 * of all.
 *
 * It belongs to a communicator of rank 0 and is the owner's (progress.h). Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_TUNING_H
#define SMD_LIBSUMMAND_TUNING_H

#include "worker/libsummand/balance.h"
#include "worker/libsummand/chunk_search.h"
#include "worker/libsummand/exchange_choice.h"
#include "worker/libsummand/measured_rate.h"
#include "worker/libsummand/rate_trial.h"
#include "worker/libsummand/refusals.h"
#include "worker/libsummand/server_choice.h"
#include "worker/libsummand/shard_choice.h"

/* Tables at once, and then one each: 36 in a minute, and no more than 15 in each of many. */
#define SMD_TUNING_TABLES_MOST    21u
#define SMD_TUNING_TABLE_EVERY_NS 4000000000u

/* What has come of a shard, too little at a time to say something. */
struct smd_tuning_rest {
	unsigned chunks;
	uint64_t bytes;
	uint64_t ns;
};

enum smd_tuning_cause {
	SMD_TUNING_RATES,
	SMD_TUNING_WEIGHTS,
	SMD_TUNING_SERVERS,
	SMD_TUNING_EXCHANGES,
	SMD_TUNING_SHARDS,
	SMD_TUNING_CHUNKS,
};

/* A shard of a table, in the order of the deal. */
struct smd_tuning_shard {
	unsigned server; /* its number */
	uint32_t weight; /* 0: nothing is dealt to it */
	bool may_leave;  /* nothing may be, for as long as others are there */
	uint32_t spare;  /* its server is: what it is tried with where it has no weight; 0: it is not */
	bool apart; /* its lane goes by another network than that of the server's first shard */
};

struct smd_tuning {
	struct smd_measured_rate rate;
	struct smd_rate_trial trial; /* of what it has found */
	struct smd_balance balance;
	struct smd_shard_choice choice;
	struct smd_server_choice servers;
	struct smd_chunk_search search;
	struct smd_exchange_choice exchange;
	bool met;         /* ranks can do operations among themselves */
	unsigned nshards; /* that there are; as many as the balance's have a place */
	struct smd_tuning_shard *shards;
	uint64_t looked_ns; /* who decides was looked at last; */
	uint64_t waited_ns; /* processors had been waited for (pressure.h) for so long by then */
	uint32_t *before;   /* [nshards] weights that the rates on trial have changed */
	double *parts; /* [nshards] what each had when its server was left out, to the mean of others */
	double first_sum; /* of the weights at the beginning, beside which spare shards are declared */
	uint32_t *weights;  /* [nshards] that are asked for, */
	uint32_t *placed;   /* [nshards] that are in use, by place, */
	struct smd_tuning_rest *rests; /* and what has come of each place */
	int scale;
	enum smd_tuning_cause cause; /* whose wish is asked for */
	double factor;               /* of all weights, for rates; */
	bool back;                   /* to what they were before the trial, */
	bool doubts;                 /* or before one that was won */
	struct smd_chunk_search searched; /* what was found for the rates that are doubted */
	uint64_t sure;               /* servers that these rates leave one shard of several */
	uint64_t counted_ns;         /* when a trial of shards or chunks has last counted a span, or
					none was on */
	bool fresh;                  /* something has been seen since it was last thought about */
	struct smd_refusals refusals; /* of its tables */
	unsigned tables;             /* that may be had, */
	uint64_t tables_ns;          /* since when there is one more each TABLE_EVERY_NS */
	unsigned in_flight;
	unsigned together; /* that have begun since none was */
	uint64_t open;     /* bytes of those in flight */
	uint64_t began_ns; /* the span, */
	bool amid;         /* when something was in flight; */
	uint64_t span;     /* with so many bytes it ends where something always is, */
	uint64_t ended;    /* so many have ended in it, */
	uint64_t skipped;  /* of which so many, both ways, were zeros and did not cross, */
	unsigned operations; /* of so many operations, */
	unsigned exchanged;  /* and so many of these ranks did among themselves; */
	uint64_t least;      /* bytes of one that has begun or ended in it */
	uint64_t most;
	uint64_t usual;    /* bytes of an operation, of late: small ones bring it down slowly */
	uint64_t bounded;  /* by what chunks that would differ were found; 0: they were not */
};

/* Of a table of these shards and that scale, for so many ranks. 0 or -ENOMEM. */
int smd_tuning_create(struct smd_tuning *tuning, unsigned nranks,
	const struct smd_tuning_shard *shards, unsigned nshards, int scale, uint64_t now_ns);
void smd_tuning_destroy(struct smd_tuning *tuning);

/* It is not the communicator's first: what may have been tried before is not tried again so soon. */
void smd_tuning_go_on(struct smd_tuning *tuning, uint64_t now_ns);

/* Whether other chunks are on trial, or may be soon. */
bool smd_tuning_searches(const struct smd_tuning *tuning, uint64_t now_ns);

/* Chunks of other scales would not differ: they would be the smallest there may be, or the operation has one. */
void smd_tuning_bound_chunks(struct smd_tuning *tuning, int least, int most);

/* An operation of so many bytes begins, or ends, with as many; 0: it does not count. Times are of
 * *spans*: from when nothing was in flight to when nothing is again; where something always is,
 * each time that as much has ended as was in flight. */
void smd_tuning_begin(struct smd_tuning *tuning, uint64_t bytes, uint64_t now_ns);
void smd_tuning_end(struct smd_tuning *tuning, uint64_t bytes, uint64_t now_ns);

/* What ends now ranks did among themselves. */
void smd_tuning_exchanged(struct smd_tuning *tuning);

/* Since the span began so many bytes more, of both ways, were zeros and did not cross. */
void smd_tuning_skipped(struct smd_tuning *tuning, uint64_t bytes);

/* What has crossed without much of it says nothing of the links. */
static inline bool smd_tuning_counts(uint64_t bytes, uint64_t skipped)
{
	return skipped <= bytes / 8;
}

/* So many chunks of the shard at that place have come, while it always had something to do. What is
 * short is put together until one shard has enough: so all are seen over the same time, and one
 * that is done soon is not waited for. */
void smd_tuning_slice(
	struct smd_tuning *tuning, unsigned place, unsigned chunks, uint64_t bytes, uint64_t ns);

/* Whether another table would be better: tuning->weights and tuning->scale. */
bool smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

/* It is in use from now on. */
void smd_tuning_applied(struct smd_tuning *tuning, uint64_t now_ns);

/* It cannot be had now, for want of memory at a shard: it is not asked for again so soon. */
void smd_tuning_refused(struct smd_tuning *tuning, uint64_t now_ns);

#endif
