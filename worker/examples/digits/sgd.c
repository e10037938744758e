/* Moves the parameters along the gradient, the same way on every rank. */
#include "worker/examples/digits/sgd.h"

#include <errno.h>
#include <stdlib.h>

int digits_sgd_create(
	size_t nparameters, float learning_rate, float momentum, struct digits_sgd *out)
{
	struct digits_sgd sgd = {
		.nparameters = nparameters, .momentum = momentum, .learning_rate = learning_rate};

	sgd.velocity = calloc(nparameters, sizeof(float));
	if (!sgd.velocity) {
		return -ENOMEM;
	}
	*out = sgd;
	return 0;
}

void digits_sgd_free(struct digits_sgd *sgd)
{
	free(sgd->velocity);
	*sgd = (struct digits_sgd){0};
}

void digits_sgd_step(struct digits_sgd *sgd, float *parameters, const float *gradient, int nranks)
{
	for (size_t i = 0; i < sgd->nparameters; i++) {
		sgd->velocity[i] = sgd->momentum * sgd->velocity[i] + gradient[i] / (float)nranks;
		parameters[i] -= sgd->learning_rate * sgd->velocity[i];
	}
}
