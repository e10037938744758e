/* Waits for checkpoints, and measures each on the held-out examples. */
#include "worker/examples/digits/evaluator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/examples/digits/checkpoint.h"
#include "worker/examples/digits/notify.h"
#include "worker/examples/digits/shard.h"

#define POLL_NS 100000000

int digits_evaluator_measure(const struct digits_network *network,
	const struct digits_dataset *dataset, double *accuracy, struct smd_error *error)
{
	struct digits_score score = {0};
	struct digits_shard held_out;
	struct digits_pass pass;
	int err;

	err = digits_shard_create_held_out(dataset->count, &held_out);
	if (err) {
		return smd_error_set(error, -err, "evaluator: no memory for the examples");
	}
	if (held_out.count == 0) {
		err = smd_error_set(error, EINVAL, "data set: must have %d images or more, got %zu",
			DIGITS_HELD_OUT_EVERY, dataset->count);
		goto free_held_out;
	}
	err = digits_pass_create(network, (int)held_out.count, &pass);
	if (err) {
		smd_error_set(error, -err, "evaluator: no memory for a pass");
		goto free_held_out;
	}
	digits_pass_fill(&pass, dataset, held_out.examples, (int)held_out.count);
	digits_network_forward(network, &pass);
	digits_network_score(network, &pass, &score);
	*accuracy = (double)score.correct / score.count;
	digits_pass_free(&pass);
free_held_out:
	digits_shard_free(&held_out);
	return err;
}

int digits_evaluator_conclude(double accuracy, double min_accuracy, struct smd_error *error)
{
	digits_notify_result("accuracy", "%.4f", accuracy);
	printf("accuracy %.4f on held-out examples\n", accuracy);
	if (accuracy < min_accuracy) {
		return smd_error_set(error, ERANGE, "accuracy: must be at least %.4f, got %.4f",
			min_accuracy, accuracy);
	}
	return 0;
}

/* Measures the checkpoint in a file, and says which step it was of and whether it was the last. */
static int measure_file(const char *path, const struct digits_dataset *dataset, int64_t *step,
	int *is_final, double *accuracy, struct smd_error *error)
{
	struct digits_checkpoint checkpoint;
	int err = digits_checkpoint_read(path, &checkpoint, error);

	if (err) {
		return err;
	}
	err = digits_evaluator_measure(&checkpoint.network, dataset, accuracy, error);
	*step = (int64_t)checkpoint.step;
	*is_final = checkpoint.is_final;
	digits_checkpoint_free(&checkpoint);
	if (!err) {
		digits_notify_status("step %" PRId64 " accuracy %.3f", *step, *accuracy);
		printf("step %" PRId64 " accuracy %.4f\n", *step, *accuracy);
	}
	return err;
}

static void sleep_a_little(void)
{
	struct timespec pause = {.tv_nsec = POLL_NS};

	nanosleep(&pause, NULL); /* a signal ends it early: good */
}

int digits_evaluator_watch(const char *checkpoint_dir, const struct digits_dataset *dataset,
	double min_accuracy, const volatile sig_atomic_t *stop, struct smd_error *error)
{
	char path[PATH_MAX] = "";
	int64_t step = -1;
	int is_final = 0;
	double accuracy = 0.0;

	digits_notify_status("waits for a checkpoint");
	while (!*stop) {
		int found;
		int err;

		if (step >= 0 && access(path, F_OK)) {
			step = -1; /* the chief has cleared the directory: it begins anew */
		}
		found = digits_checkpoint_next(checkpoint_dir, step, path, error);
		if (found < 0) {
			return found;
		}
		if (!found) {
			sleep_a_little();
			continue;
		}
		err = measure_file(path, dataset, &step, &is_final, &accuracy, error);
		if (err) {
			return err;
		}
		if (is_final) {
			return digits_evaluator_conclude(accuracy, min_accuracy, error);
		}
	}
	printf("stopped before the last checkpoint\n");
	return 0;
}
