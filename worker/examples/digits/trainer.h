/*
 * The trainer: one rank's part in training a network on its shard of the data set.
 *
 * Every rank draws the same initial weights, takes the same number of steps, and moves its weights
 * along the same summed gradient. So all of them hold the same weights, to the bit, after every
 * step.
 */
#ifndef DIGITS_TRAINER_H
#define DIGITS_TRAINER_H

#include <stdint.h>

#include "worker/examples/digits/cluster.h"
#include "worker/examples/digits/network.h"

struct digits_trainer_options {
	struct digits_shape shape;
	int epochs;
	int batch; /* examples that each rank takes in one step */
	float learning_rate;
	float momentum;
	uint64_t seed;
	const char *checkpoint_dir; /* NULL: no checkpoints */
	int checkpoint_every;       /* steps */
};

/* Trains, and hands over the network; the caller frees it. */
int digits_trainer_run(const struct digits_trainer_options *options,
	const struct digits_cluster *cluster, const struct digits_dataset *dataset,
	struct digits_network *out, struct smd_error *error);

#endif
