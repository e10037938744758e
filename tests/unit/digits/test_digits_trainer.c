/* Training and evaluating alone: it learns, and the same seed gives the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/examples/digits/checkpoint.h"
#include "worker/examples/digits/evaluator.h"
#include "worker/examples/digits/trainer.h"

static struct digits_dataset dataset;
static char dir[] = "/tmp/digits-trainer-XXXXXX";

static const struct digits_trainer_options small = {
	.shape = {2, {DIGITS_PIXELS, 16, DIGITS_CLASSES}},
	.epochs = 3,
	.batch = 8,
	.learning_rate = 0.05f,
	.momentum = 0.9f,
	.seed = 1,
	.checkpoint_every = 200,
};

static int set_up(void **state)
{
	const char *source = getenv("SUMMAND_SOURCE");
	char path[4096];

	(void)state;
	if (!source || !mkdtemp(dir)) {
		fprintf(stderr, "SUMMAND_SOURCE: must name the source tree\n");
		return -1;
	}
	snprintf(path, sizeof(path), "%s/worker/examples/digits/digits.txt", source);
	return digits_dataset_load(path, &dataset, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	digits_dataset_free(&dataset);
	return digits_checkpoint_clear(dir, NULL) || rmdir(dir) ? -1 : 0;
}

static uint64_t train(struct digits_trainer_options options, double *accuracy)
{
	struct digits_cluster alone = {.role = DIGITS_ALONE, .nranks = 1};
	struct digits_network network;
	uint64_t hash;

	assert_int_equal(digits_trainer_run(&options, &alone, &dataset, &network, NULL), 0);
	assert_int_equal(digits_evaluator_measure(&network, &dataset, accuracy, NULL), 0);
	hash = digits_network_hash(&network);
	digits_network_free(&network);
	return hash;
}

static void the_same_seed_gives_the_same_weights(void **state)
{
	struct digits_trainer_options other = small;
	double accuracy;
	uint64_t hash = train(small, &accuracy);

	(void)state;
	assert_true(accuracy > 0.8);
	assert_true(train(small, &accuracy) == hash);
	other.seed = 2;
	assert_true(train(other, &accuracy) != hash);
}

static void the_evaluator_follows_the_checkpoints(void **state)
{
	struct digits_trainer_options options = small;
	struct smd_error error = {""};
	volatile sig_atomic_t stop = 0;
	char path[PATH_MAX];
	double accuracy;

	(void)state;
	options.checkpoint_dir = dir;
	train(options, &accuracy);
	assert_int_equal(digits_checkpoint_next(dir, 400, path, NULL), 1);
	assert_non_null(strstr(path, "step-000000000537"));
	assert_int_equal(digits_evaluator_watch(dir, &dataset, accuracy, &stop, NULL), 0);
	assert_int_equal(digits_evaluator_watch(dir, &dataset, 1.0, &stop, &error), -ERANGE);
	assert_int_equal(strncmp(error.text, "accuracy: must be at least 1.0000, got 0.", 41), 0);
	stop = 1;
	assert_int_equal(digits_evaluator_watch(dir, &dataset, 1.0, &stop, NULL), 0);
}

static void a_batch_that_no_shard_fills(void **state)
{
	struct digits_trainer_options options = small;
	struct digits_cluster alone = {.role = DIGITS_ALONE, .nranks = 1};
	struct digits_network network;
	struct smd_error error = {""};

	(void)state;
	options.batch = 1439;
	assert_int_equal(digits_trainer_run(&options, &alone, &dataset, &network, &error), -EINVAL);
	assert_string_equal(
		error.text, "batch: must be at most 1438, the examples of a rank, got 1439");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_seed_gives_the_same_weights),
		cmocka_unit_test(the_evaluator_follows_the_checkpoints),
		cmocka_unit_test(a_batch_that_no_shard_fills),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
