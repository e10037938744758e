/* Deals the examples: some held out, the others to the ranks in turn. */
#include "worker/examples/digits/shard.h"

#include <errno.h>
#include <stdlib.h>

static int is_held_out(size_t example)
{
	return example % DIGITS_HELD_OUT_EVERY == DIGITS_HELD_OUT_EVERY - 1;
}

int digits_shard_create(size_t count, int nranks, int rank, struct digits_shard *out)
{
	struct digits_shard shard = {0};
	size_t turn = 0;

	shard.examples = calloc(count + 1, sizeof(*shard.examples));
	if (!shard.examples) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		if (is_held_out(i)) {
			continue;
		}
		if (turn++ % (size_t)nranks == (size_t)rank) {
			shard.examples[shard.count++] = (uint32_t)i;
		}
	}
	*out = shard;
	return 0;
}

int digits_shard_create_held_out(size_t count, struct digits_shard *out)
{
	struct digits_shard shard = {0};

	shard.examples = calloc(count + 1, sizeof(*shard.examples));
	if (!shard.examples) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		if (is_held_out(i)) {
			shard.examples[shard.count++] = (uint32_t)i;
		}
	}
	*out = shard;
	return 0;
}

void digits_shard_free(struct digits_shard *shard)
{
	free(shard->examples);
	*shard = (struct digits_shard){0};
}

size_t digits_shard_smallest(size_t count, int nranks)
{
	size_t held_out = count / DIGITS_HELD_OUT_EVERY;

	return (count - held_out) / (size_t)nranks;
}

void digits_shard_shuffle(struct digits_shard *shard, struct digits_prng *prng)
{
	for (size_t left = shard->count; left > 1; left--) {
		size_t pick = digits_prng_below(prng, (uint32_t)left);
		uint32_t example = shard->examples[pick];

		shard->examples[pick] = shard->examples[left - 1];
		shard->examples[left - 1] = example;
	}
}
