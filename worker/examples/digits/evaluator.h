/*
 * The evaluator: measures checkpoints on the examples that no rank trains on.
 *
 * It shares nothing with the trainers but a directory.
 */
#ifndef DIGITS_EVALUATOR_H
#define DIGITS_EVALUATOR_H

#include <signal.h>

#include "worker/examples/digits/network.h"

/* The fraction of held-out examples that the network gets right. */
int digits_evaluator_measure(const struct digits_network *network,
	const struct digits_dataset *dataset, double *accuracy, struct smd_error *error);

/*
 * Measures one checkpoint after the other as they appear, up to the last one or until *stop, and
 * reports each. -ERANGE with a text when the last one's accuracy is below `min_accuracy`.
 */
int digits_evaluator_watch(const char *checkpoint_dir, const struct digits_dataset *dataset,
	double min_accuracy, const volatile sig_atomic_t *stop, struct smd_error *error);

/* Reports the final accuracy: -ERANGE with a text when it is too low. */
int digits_evaluator_conclude(double accuracy, double min_accuracy, struct smd_error *error);

#endif
