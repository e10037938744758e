/*
 * Any bytes at all as a checkpoint of the digits example, as they are and with the hash put right:
 * refused with a reason, or a network whose parameters can be read.
 */
#include <stdlib.h>

#include "reduction_server/base/bytes.h"
#include "reduction_server/base/hash.h"
#include "tests/fuzz/input.h"
#include "worker/examples/digits/checkpoint.h"

static void read_file(const uint8_t *bytes, size_t length)
{
	struct digits_checkpoint checkpoint;
	struct smd_error error = {""};
	int ret = digits_checkpoint_read(input_file(bytes, length), &checkpoint, &error);

	check_outcome(ret, &error);
	if (ret == 0) {
		const struct digits_network *network = &checkpoint.network;

		must_hold(network->shape.nlayers >= 1);
		must_hold(length == 64 + 4 * network->nparameters + 8);
		free(input_exact((const uint8_t *)network->parameters, 4 * network->nparameters));
		digits_checkpoint_free(&checkpoint);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	read_file(bytes, length);
	if (length >= 8) {
		uint8_t *right = input_exact(bytes, length);

		smd_put64(right + length - 8, smd_hash(SMD_HASH_SEED, bytes, length - 8));
		read_file(right, length);
		free(right);
	}
	return 0;
}
