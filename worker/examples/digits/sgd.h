/* The optimiser: stochastic gradient descent with momentum. */
#ifndef DIGITS_SGD_H
#define DIGITS_SGD_H

#include <stddef.h>

struct digits_sgd {
	size_t nparameters;
	float *velocity;
	float momentum;
	float learning_rate;
};

int digits_sgd_create(
	size_t nparameters, float learning_rate, float momentum, struct digits_sgd *out);
void digits_sgd_free(struct digits_sgd *sgd);

/* One step along the mean gradient: `gradient` is the sum over `nranks` ranks. */
void digits_sgd_step(struct digits_sgd *sgd, float *parameters, const float *gradient, int nranks);

#endif
