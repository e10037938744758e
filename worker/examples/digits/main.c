/*
 * summand-digits: learns to read handwritten digits, alone or on all workers of a job.
 *
 * The example for newcomers: an ordinary training program in C, made distributed by libsummand.
 * Begin to read at train_step() in trainer.c, and at exchange.c.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"
#include "worker/examples/digits/checkpoint.h"
#include "worker/examples/digits/cluster.h"
#include "worker/examples/digits/evaluator.h"
#include "worker/examples/digits/trainer.h"

#define COMPONENT "digits"

struct settings {
	struct digits_trainer_options trainer;
	const char *data;
	const char *checkpoint_dir; /* as given; may be a bucket */
	char checkpoint_path[PATH_MAX];
	char data_path[PATH_MAX];
	float min_accuracy;
	int seed;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

/* A decimal number, 0 to 1. */
static int set_fraction(void *target, const char *value, struct smd_error *error)
{
	char *end;
	float number = strtof(value, &end);

	if (end == value || *end || !(number >= 0.0f && number <= 1.0f)) {
		return smd_error_set(error, EINVAL, "must be a number from 0 to 1");
	}
	*(float *)target = number;
	return 0;
}

static int set_positive(void *target, const char *value, struct smd_error *error)
{
	uint64_t number;

	if (smd_parse_number(value, 1, 1000000, &number)) {
		return smd_error_set(error, EINVAL, "must be 1 to 1000000");
	}
	*(int *)target = (int)number;
	return 0;
}

/* The widths of the layers between the pixels and the classes: "128,64". */
static int set_hidden(void *target, const char *value, struct smd_error *error)
{
	struct digits_shape shape = {.widths = {DIGITS_PIXELS}};
	int n = 1;
	char *copy = strdup(value);
	char *rest = copy;
	char *word;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (word = strsep(&rest, ","))) {
		uint64_t width;

		if (n == DIGITS_LAYERS_MAX || smd_parse_number(word, 1, DIGITS_WIDTH_MAX, &width)) {
			err = smd_error_set(error, EINVAL, "must be 1 to %d widths of 1 to %d",
				DIGITS_LAYERS_MAX - 1, DIGITS_WIDTH_MAX);
			break;
		}
		shape.widths[n++] = (int)width;
	}
	free(copy);
	if (err) {
		return err;
	}
	shape.widths[n] = DIGITS_CLASSES;
	shape.nlayers = n;
	*(struct digits_shape *)target = shape;
	return 0;
}

static int parse(struct settings *settings, int argc, char **argv, struct smd_error *error)
{
	struct digits_trainer_options *trainer = &settings->trainer;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Training"),
		{"data", "FILE", "the images (default: digits.txt that came with the program)",
			smd_option_set_string, &settings->data},
		{"epochs", "N", "how often every example is seen (default 100)", set_positive,
			&trainer->epochs},
		{"batch", "N", "examples that each rank takes in a step (default 8)", set_positive,
			&trainer->batch},
		{"learning-rate", "X", "the length of a step (default 0.05)", set_fraction,
			&trainer->learning_rate},
		{"hidden", "N,...", "widths of the hidden layers (default 128,64)", set_hidden,
			&trainer->shape},
		{"seed", "N", "the seed of initial weights and shuffles (default 1)",
			smd_option_set_int, &settings->seed},
		{"min-accuracy", "X", "fail when the last one is lower (default 0.95)",
			set_fraction, &settings->min_accuracy},
		SMD_OPTION_GROUP("Checkpoints"),
		{"checkpoint-dir", "DIR",
			"where checkpoints go (default: $AIP_CHECKPOINT_DIR, else there are none)",
			smd_option_set_string, &settings->checkpoint_dir},
		{"checkpoint-every", "N", "steps between two checkpoints (default 500)",
			set_positive, &trainer->checkpoint_every},
	};
	const struct smd_command command = {
		.synopsis = "summand-digits [OPTION...]",
		.summary = "Learns to read handwritten digits, alone or on all workers of a job.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = "CLUSTER_SPEC says which part of a job this process plays: chief and "
			  "workers train, the evaluator measures the chief's checkpoints. Without "
			  "it, one process does both.",
		.exits = "Exit codes: 0 done, 1 it failed or is not accurate enough, 2 the command "
			 "line is wrong.",
	};
	int noperands;
	int err = smd_options_parse(&command, argc, argv, &noperands, error);

	if (!err && noperands > 0) {
		err = smd_error_set(error, EINVAL,
			"summand-digits: must have no operands, got \"%s\"", argv[1]);
	}
	trainer->seed = (uint64_t)settings->seed;
	return err;
}

/* The file that was built or installed with this program: ../share/summand beside its folder. */
static int find_data(char path[PATH_MAX], struct smd_error *error)
{
	const char *name = "/../share/summand/digits.txt";
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (length < 0) {
		return smd_error_set(error, errno, "/proc/self/exe: cannot be read: %s; use --data",
			strerror(errno));
	}
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) + strlen(name) >= PATH_MAX) {
		return smd_error_set(error, ENAMETOOLONG, "%s: too long; use --data", path);
	}
	memcpy(slash, name, strlen(name) + 1);
	return 0;
}

static int train(const struct settings *settings, const struct digits_cluster *cluster,
	const struct digits_dataset *dataset, struct smd_error *error)
{
	struct digits_network network;
	double accuracy;
	int err;

	err = digits_trainer_run(&settings->trainer, cluster, dataset, &network, error);
	if (err) {
		return err;
	}
	if (cluster->role == DIGITS_ALONE) {
		err = digits_evaluator_measure(&network, dataset, &accuracy, error);
		if (!err) {
			err = digits_evaluator_conclude(
				accuracy, (double)settings->min_accuracy, error);
		}
	}
	digits_network_free(&network);
	return err;
}

static int evaluate(const struct settings *settings, const struct digits_dataset *dataset,
	struct smd_error *error)
{
	struct sigaction action = {.sa_handler = on_signal};

	if (!settings->trainer.checkpoint_dir) {
		return smd_error_set(error, EINVAL,
			"evaluator: must have --checkpoint-dir or AIP_CHECKPOINT_DIR, got neither");
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	return digits_evaluator_watch(settings->trainer.checkpoint_dir, dataset,
		(double)settings->min_accuracy, &stop, error);
}

static int run(struct settings *settings, struct smd_error *error)
{
	struct digits_dataset dataset;
	struct digits_cluster cluster;
	int err;

	err = digits_cluster_read(getenv("CLUSTER_SPEC"), &cluster, error);
	if (!err && settings->checkpoint_dir && *settings->checkpoint_dir) {
		err = digits_checkpoint_open_dir(
			settings->checkpoint_dir, settings->checkpoint_path, error);
		settings->trainer.checkpoint_dir = settings->checkpoint_path;
	}
	if (!err && !settings->data) {
		err = find_data(settings->data_path, error);
		settings->data = settings->data_path;
	}
	if (!err) {
		err = digits_dataset_load(settings->data, &dataset, error);
	}
	if (err) {
		return err;
	}
	if (cluster.role == DIGITS_EVALUATOR) {
		err = evaluate(settings, &dataset, error);
	} else {
		err = train(settings, &cluster, &dataset, error);
	}
	digits_dataset_free(&dataset);
	return err;
}

int main(int argc, char **argv)
{
	struct settings settings = {
		.trainer = {.shape = {3, {DIGITS_PIXELS, 128, 64, DIGITS_CLASSES}},
			.epochs = 100,
			.batch = 8,
			.learning_rate = 0.05f,
			.momentum = 0.9f,
			.checkpoint_every = 500},
		.checkpoint_dir = getenv("AIP_CHECKPOINT_DIR"),
		.min_accuracy = 0.95f,
		.seed = 1,
	};
	struct smd_error error = {""};
	int err = parse(&settings, argc, argv, &error);

	if (err == -ENOEXEC) {
		return 0;
	}
	if (err) {
		smd_log(SMD_LOG_ERROR, COMPONENT, "%s", error.text);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN); /* the runner's pipe may close before we end */
	setvbuf(stdout, NULL, _IOLBF, 0);
	err = run(&settings, &error);
	if (err) {
		smd_log(SMD_LOG_ERROR, COMPONENT, "%s", error.text);
		return 1;
	}
	return 0;
}
