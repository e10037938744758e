/*
 * A shard: the examples that one rank trains on, or those that are held out for the evaluator.
 *
 * The split is fixed: every fifth example is held out. The others are dealt to the ranks in turn,
 * like cards, so that every training example is in exactly one shard.
 */
#ifndef DIGITS_SHARD_H
#define DIGITS_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/digits/prng.h"

#define DIGITS_HELD_OUT_EVERY 5

struct digits_shard {
	size_t count;
	uint32_t *examples; /* places in the data set */
};

/* Of `count` examples, those of one rank. The sizes of two shards differ by at most 1. */
int digits_shard_create(size_t count, int nranks, int rank, struct digits_shard *out);
int digits_shard_create_held_out(size_t count, struct digits_shard *out);
void digits_shard_free(struct digits_shard *shard);

/* The size of the smallest shard: what all ranks can train on for the same number of steps. */
size_t digits_shard_smallest(size_t count, int nranks);

/* Puts the shard into a new order, which follows from the generator's state alone. */
void digits_shard_shuffle(struct digits_shard *shard, struct digits_prng *prng);

#endif
