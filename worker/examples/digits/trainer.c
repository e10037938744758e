/* Trains a network, one rank of several: step, epoch, checkpoint, report. */
#include "worker/examples/digits/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/examples/digits/checkpoint.h"
#include "worker/examples/digits/exchange.h"
#include "worker/examples/digits/notify.h"
#include "worker/examples/digits/sgd.h"
#include "worker/examples/digits/shard.h"

#define STREAM_SHUFFLE 1 /* of rank 0; the others' follow it */
#define STATUS_SECONDS 0.25
#define PRINTED_EPOCHS 5

struct trainer {
	const struct digits_trainer_options *options;
	const struct digits_dataset *dataset;
	int nranks;
	int rank;
	struct digits_network network;
	struct digits_shard shard;
	struct digits_prng shuffle;
	struct digits_pass pass;
	float *gradient; /* laid out like the network's parameters */
	struct digits_sgd sgd;
	struct digits_exchange exchange;
	int epoch; /* those that are over */
	int steps_per_epoch;
	uint64_t step;
	double last_status; /* when */
};

static int is_chief(const struct trainer *trainer)
{
	return trainer->rank == 0;
}

/* How many steps every rank can take without running out of examples; the tail of an epoch that
 * does not fill a batch on all ranks is left out (another one after the next shuffle). */
static int count_steps(struct trainer *trainer, struct smd_error *error)
{
	size_t smallest = digits_shard_smallest(trainer->dataset->count, trainer->nranks);

	trainer->steps_per_epoch = (int)(smallest / (size_t)trainer->options->batch);
	if (trainer->steps_per_epoch == 0) {
		return smd_error_set(error, EINVAL,
			"batch: must be at most %zu, the examples of a rank, got %d", smallest,
			trainer->options->batch);
	}
	return 0;
}

static void close_trainer(struct trainer *trainer)
{
	/* The exchange first: until it is closed, the gradient may be the library's. */
	digits_exchange_close(&trainer->exchange);
	digits_sgd_free(&trainer->sgd);
	free(trainer->gradient);
	digits_pass_free(&trainer->pass);
	digits_shard_free(&trainer->shard);
	digits_network_free(&trainer->network);
}

static int open_trainer(struct trainer *trainer, struct smd_error *error)
{
	const struct digits_trainer_options *options = trainer->options;
	int err = count_steps(trainer, error);

	if (err) {
		return err;
	}
	err = digits_network_create(&options->shape, &trainer->network);
	if (!err) {
		err = digits_pass_create(&trainer->network, options->batch, &trainer->pass);
	}
	if (!err) {
		err = digits_shard_create(
			trainer->dataset->count, trainer->nranks, trainer->rank, &trainer->shard);
	}
	if (!err) {
		err = digits_sgd_create(trainer->network.nparameters, options->learning_rate,
			options->momentum, &trainer->sgd);
	}
	if (!err) {
		trainer->gradient = calloc(trainer->network.nparameters, sizeof(float));
		err = trainer->gradient ? 0 : -ENOMEM;
	}
	if (!err) {
		digits_network_init(&trainer->network, options->seed);
		trainer->shuffle =
			digits_prng_create(options->seed, STREAM_SHUFFLE + (uint64_t)trainer->rank);
		err = digits_exchange_open(
			trainer->nranks, trainer->rank, &trainer->exchange, error);
	}
	if (err) {
		smd_error_set(error, -err, "trainer: cannot start: %s", strerror(-err));
		close_trainer(trainer);
	}
	return err;
}

static int write_checkpoint(struct trainer *trainer, int is_final, struct smd_error *error)
{
	const char *dir = trainer->options->checkpoint_dir;
	int err;

	if (!is_chief(trainer) || !dir) {
		return 0;
	}
	err = digits_checkpoint_write(dir, &trainer->network, trainer->step, is_final, error);
	if (!err) {
		printf("checkpoint of step %" PRIu64 " written%s\n", trainer->step,
			is_final ? ", the last one" : "");
	}
	return err;
}

/*
 * One step: the heart of data-parallel training. The backward pass begins with the last layer;
 * while a layer's gradients are on their way through the reduction servers, the layer before it is
 * computed.
 */
static int train_step(struct trainer *trainer, const uint32_t *examples, struct digits_score *score,
	struct smd_error *error)
{
	struct digits_network *network = &trainer->network;
	int err;

	digits_pass_fill(&trainer->pass, trainer->dataset, examples, trainer->options->batch);
	digits_network_forward(network, &trainer->pass);
	digits_network_score(network, &trainer->pass, score);
	for (int i = network->shape.nlayers - 1; i >= 0; i--) {
		const struct digits_layer *layer = &network->layers[i];

		digits_network_backward(network, &trainer->pass, i, trainer->gradient);
		err = digits_exchange_start(&trainer->exchange, trainer->gradient + layer->weights,
			layer->nparameters, SMD_FLOAT32, error);
		if (err) {
			return err;
		}
	}
	err = digits_exchange_finish(&trainer->exchange, error);
	if (err) {
		return err;
	}
	digits_sgd_step(&trainer->sgd, network->parameters, trainer->gradient, trainer->nranks);
	trainer->step++;
	return 0;
}

/* Turns one rank's score into that of all ranks. */
static int sum_score(struct trainer *trainer, struct digits_score *score, struct smd_error *error)
{
	int32_t counts[2] = {score->correct, score->count};
	float loss = (float)score->loss;
	int first;
	int second;

	first = digits_exchange_start(&trainer->exchange, counts, 2, SMD_INT32, error);
	if (!first) {
		first = digits_exchange_start(&trainer->exchange, &loss, 1, SMD_FLOAT32, error);
	}
	/* In any case: the arrays are on this function's stack. */
	second = digits_exchange_finish(&trainer->exchange, error);
	*score = (struct digits_score){
		.loss = (double)loss, .correct = counts[0], .count = counts[1]};
	return first ? first : second;
}

static void report_epoch(struct trainer *trainer, const struct digits_score *score)
{
	double loss = score->loss / score->count;
	double accuracy = (double)score->correct / score->count;
	int epochs = trainer->options->epochs;
	double now = smd_clock_seconds();

	/* It is the same on all ranks. */
	if (trainer->rank == 0 && (trainer->epoch == 1 || trainer->epoch % PRINTED_EPOCHS == 0 ||
					  trainer->epoch == epochs)) {
		printf("epoch %d/%d step %" PRIu64 " loss %.4f accuracy %.4f\n", trainer->epoch,
			epochs, trainer->step, loss, accuracy);
	}
	if (now - trainer->last_status < STATUS_SECONDS && trainer->epoch < epochs) {
		return;
	}
	trainer->last_status = now;
	digits_notify_status("epoch %d/%d step %" PRIu64 " loss %.3f accuracy %.3f", trainer->epoch,
		epochs, trainer->step, loss, accuracy);
}

static int train_epoch(struct trainer *trainer, struct smd_error *error)
{
	const struct digits_trainer_options *options = trainer->options;
	uint64_t last = (uint64_t)options->epochs * (uint64_t)trainer->steps_per_epoch;
	struct digits_score score = {0};
	int err = 0;

	digits_shard_shuffle(&trainer->shard, &trainer->shuffle);
	for (int i = 0; !err && i < trainer->steps_per_epoch; i++) {
		const uint32_t *examples =
			trainer->shard.examples + (size_t)i * (size_t)options->batch;

		err = train_step(trainer, examples, &score, error);
		if (!err && trainer->step % (uint64_t)options->checkpoint_every == 0 &&
			trainer->step < last) {
			err = write_checkpoint(trainer, 0, error);
		}
	}
	if (!err) {
		err = sum_score(trainer, &score, error);
	}
	if (!err) {
		trainer->epoch++;
		report_epoch(trainer, &score);
	}
	return err;
}

/* Fails unless all ranks hold the same weights: then, and only then, is every quarter of the hash,
 * summed over all ranks, n times one's own on every rank. */
static int check_agreement(struct trainer *trainer, uint64_t hash, struct smd_error *error)
{
	int32_t sums[4];
	int first;
	int second;

	for (int i = 0; i < 4; i++) {
		sums[i] = (int32_t)(hash >> 16 * i & 0xffff);
	}
	first = digits_exchange_start(&trainer->exchange, sums, 4, SMD_INT32, error);
	second = digits_exchange_finish(&trainer->exchange, error);
	for (int i = 0; !first && !second && i < 4; i++) {
		if (sums[i] != (int32_t)(hash >> 16 * i & 0xffff) * trainer->nranks) {
			first = smd_error_set(error, EPROTO,
				"weights: must be the same on all ranks, got %016" PRIx64
				" on rank %d and others elsewhere",
				hash, trainer->rank);
		}
	}
	return first ? first : second;
}

static int finish_training(struct trainer *trainer, struct smd_error *error)
{
	uint64_t hash = digits_network_hash(&trainer->network);
	int err = check_agreement(trainer, hash, error);

	if (!err) {
		err = write_checkpoint(trainer, 1, error);
	}
	if (!err) {
		/* A worker leaves when the chief has written: until then its loss would show. */
		err = digits_exchange_meet(&trainer->exchange, error);
	}
	if (err) {
		return err;
	}
	digits_notify_result("steps", "%" PRIu64, trainer->step);
	digits_notify_result("weights", "%016" PRIx64, hash);
	digits_notify_result("allreduce_bytes", "%" PRIu64, trainer->exchange.bytes);
	digits_notify_result("allreduce_seconds", "%.3f", trainer->exchange.seconds);
	printf("weights %016" PRIx64 " after %" PRIu64 " steps; all-reduced %" PRIu64
	       " bytes in %.3f s\n",
		hash, trainer->step, trainer->exchange.bytes, trainer->exchange.seconds);
	return 0;
}

int digits_trainer_run(const struct digits_trainer_options *options,
	const struct digits_cluster *cluster, const struct digits_dataset *dataset,
	struct digits_network *out, struct smd_error *error)
{
	struct trainer trainer = {.options = options,
		.dataset = dataset,
		.nranks = cluster->nranks,
		.rank = cluster->rank};
	int err;

	if (is_chief(&trainer) && options->checkpoint_dir) {
		err = digits_checkpoint_clear(options->checkpoint_dir, error);
		if (err) {
			return err;
		}
	}
	err = open_trainer(&trainer, error);
	if (err) {
		return err;
	}
	printf("rank %d of %d: %zu examples, %zu parameters, %d epochs of %d steps\n", trainer.rank,
		trainer.nranks, trainer.shard.count, trainer.network.nparameters, options->epochs,
		trainer.steps_per_epoch);
	for (int i = 0; !err && i < options->epochs; i++) {
		err = train_epoch(&trainer, error);
	}
	if (!err) {
		err = finish_training(&trainer, error);
	}
	if (!err) {
		*out = trainer.network;
		trainer.network = (struct digits_network){0};
	}
	close_trainer(&trainer);
	return err;
}
