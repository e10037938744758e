/*
 * Weights with which all shards of a table finish together, by what rank 0 has seen
 * (specs/design/epochs.md, Rates).
 *
 * A shard that takes longer for its share than the others gets less of it, and one that is done
 * before them more: in steps, when several verdicts in a row say so, and only so many in a minute.
 * A step that has not brought half of what it promised is taken back, unless it went too far: then
 * a smaller one follows.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_BALANCE_H
#define SMD_LIBSUMMAND_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#define SMD_BALANCE_SAMPLES 5u /* of each shard, that a verdict is on */

struct smd_balance_shard {
	uint32_t weight;                     /* in use; Mbit/s, at least 1, */
	uint32_t before;                     /* before the last step, */
	uint32_t wanted;                     /* and for the next one */
	double samples[SMD_BALANCE_SAMPLES]; /* ns per byte */
	unsigned nsamples;
};

/* Verdicts in a row on the same shard. */
struct smd_balance_verdicts {
	unsigned shard;
	double unequal; /* what they say in all */
};

struct smd_balance {
	unsigned nshards;
	struct smd_balance_shard *shards;
	unsigned steps;                    /* that may be taken, */
	uint64_t steps_at_ns;              /* since when there is one more each STEP_EVERY_NS */
	uint64_t next_ns;                  /* no step before, unless something has changed */
	uint64_t stepped_ns;               /* the last one, */
	double most;                       /* what a weight could change by in that, */
	double wanted_most;                /* and may in the one that is wanted */
	uint64_t pause_ns;                 /* after one that is taken back */
	struct smd_balance_verdicts late;  /* on one that takes longer, */
	struct smd_balance_verdicts early; /* or less */
	bool on_trial;                     /* the last step: */
	double unequal;                    /* the last one's time to the mean before it, */
	double cost;                       /* ns that a byte took then, */
	double promised;                   /* and the part of that which it should save */
	unsigned stuck;                    /* of the last step that was taken back: who was late, */
	double stuck_last;                 /* what it took for its share to the mean; 0: none was */
};

/* The declared weights. 0 or -ENOMEM. */
int smd_balance_create(
	struct smd_balance *balance, const uint32_t *weights, unsigned nshards, uint64_t now_ns);
void smd_balance_destroy(struct smd_balance *balance);

/* So many bytes of results came from the shard in `ns`, in which it always had something to do. */
void smd_balance_slice(struct smd_balance *balance, unsigned shard, uint64_t bytes, uint64_t ns);

/* Whether less weight has not helped a shard that is late, since this was last asked: which one,
 * and what it takes for its share to the mean of all. */
bool smd_balance_is_stuck(struct smd_balance *balance, unsigned *shard, double *last);

/* Whether other weights would be better: shards[].wanted. */
bool smd_balance_want(struct smd_balance *balance, uint64_t now_ns);

/* The wanted weights are in use from now on: what was measured before does not count for them. */
void smd_balance_applied(struct smd_balance *balance, uint64_t now_ns);

/* The shard's weight, so many times; and all shards get theirs: nothing is on trial any more. */
uint32_t smd_balance_scaled(const struct smd_balance_shard *shard, double factor);
void smd_balance_scale(struct smd_balance *balance, double factor);

/* Other shards are in use, at most as many as it was made for, with these weights: nothing is on
 * trial any more. */
void smd_balance_use(struct smd_balance *balance, const uint32_t *weights, unsigned nshards);

/* What was measured does not count: something else has changed. */
void smd_balance_forget(struct smd_balance *balance);

#endif
