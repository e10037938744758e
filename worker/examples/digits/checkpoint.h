/*
 * A checkpoint: a network's weights after some step, in a file that appears whole or not at all.
 *
 * The file, all numbers little-endian:
 *
 *     offset  bytes
 *          0      8  magic "DIGITSCK"
 *          8      4  version, 1
 *         12      4  1: training is over, this is the last one; else 0
 *         16      8  step
 *         24      4  number of layers
 *         28     36  widths, from the inputs on; unused ones are 0
 *         64    4 n  parameters, float32
 *      64+4n      8  hash of all bytes before it
 *
 * A reader checks all of it before it believes any of it. A directory holds the checkpoints of one
 * training.
 */
#ifndef DIGITS_CHECKPOINT_H
#define DIGITS_CHECKPOINT_H

#include <limits.h>
#include <stdint.h>

#include "worker/examples/digits/network.h"

struct digits_checkpoint {
	uint64_t step;
	int is_final;
	struct digits_network network;
};

/*
 * Makes the directory, with its parents. A gs://BUCKET/PATH becomes /gcs/BUCKET/PATH, which is
 * where Vertex AI mounts buckets; path receives the directory to use.
 */
int digits_checkpoint_open_dir(const char *dir, char path[PATH_MAX], struct smd_error *error);

/* Removes the checkpoints of an earlier training. */
int digits_checkpoint_clear(const char *dir, struct smd_error *error);

/* Writes a checkpoint into the directory, under a name that tells its step. */
int digits_checkpoint_write(const char *dir, const struct digits_network *network, uint64_t step,
	int is_final, struct smd_error *error);

/*
 * The first checkpoint in the directory after `step`: 1 and its path, 0 when there is none yet, or
 * -errno. Give -1 for the very first.
 */
int digits_checkpoint_next(
	const char *dir, int64_t step, char path[PATH_MAX], struct smd_error *error);

int digits_checkpoint_read(
	const char *path, struct digits_checkpoint *out, struct smd_error *error);
void digits_checkpoint_free(struct digits_checkpoint *checkpoint);

#endif
