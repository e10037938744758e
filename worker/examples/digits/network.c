/* A multi-layer perceptron: forward pass, loss, backward pass. */
#include "worker/examples/digits/network.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/hash.h"
#include "worker/examples/digits/prng.h"

#define STREAM_INIT 0

int digits_shape_check(const struct digits_shape *shape, struct smd_error *error)
{
	if (shape->nlayers < 1 || shape->nlayers > DIGITS_LAYERS_MAX) {
		return smd_error_set(error, EINVAL, "layers: must be 1 to %d, got %d",
			DIGITS_LAYERS_MAX, shape->nlayers);
	}
	for (int i = 0; i <= shape->nlayers; i++) {
		if (shape->widths[i] < 1 || shape->widths[i] > DIGITS_WIDTH_MAX) {
			return smd_error_set(error, EINVAL, "width %d: must be 1 to %d, got %d", i,
				DIGITS_WIDTH_MAX, shape->widths[i]);
		}
	}
	if (shape->widths[0] != DIGITS_PIXELS || shape->widths[shape->nlayers] != DIGITS_CLASSES) {
		return smd_error_set(error, EINVAL,
			"network: must take %d pixels to %d classes, got %d to %d", DIGITS_PIXELS,
			DIGITS_CLASSES, shape->widths[0], shape->widths[shape->nlayers]);
	}
	return 0;
}

int digits_network_create(const struct digits_shape *shape, struct digits_network *out)
{
	struct digits_network network = {.shape = *shape};

	for (int i = 0; i < shape->nlayers; i++) {
		struct digits_layer *layer = &network.layers[i];

		layer->inputs = shape->widths[i];
		layer->outputs = shape->widths[i + 1];
		layer->weights = network.nparameters;
		layer->biases = layer->weights + (size_t)layer->inputs * (size_t)layer->outputs;
		layer->nparameters = layer->biases + (size_t)layer->outputs - layer->weights;
		network.nparameters += layer->nparameters;
	}
	network.parameters = calloc(network.nparameters, sizeof(float));
	if (!network.parameters) {
		return -ENOMEM;
	}
	*out = network;
	return 0;
}

void digits_network_free(struct digits_network *network)
{
	free(network->parameters);
	*network = (struct digits_network){0};
}

void digits_network_init(struct digits_network *network, uint64_t seed)
{
	struct digits_prng prng = digits_prng_create(seed, STREAM_INIT);

	for (int i = 0; i < network->shape.nlayers; i++) {
		const struct digits_layer *layer = &network->layers[i];
		/* He's bound: keeps the variance of activations from layer to layer under ReLU. */
		float bound = sqrtf(6.0f / (float)layer->inputs);

		for (size_t w = layer->weights; w < layer->biases; w++) {
			network->parameters[w] = bound * digits_prng_symmetric(&prng);
		}
		memset(network->parameters + layer->biases, 0,
			(size_t)layer->outputs * sizeof(float));
	}
}

uint64_t digits_network_hash(const struct digits_network *network)
{
	return smd_hash(SMD_HASH_SEED, network->parameters, network->nparameters * sizeof(float));
}

int digits_pass_create(const struct digits_network *network, int capacity, struct digits_pass *out)
{
	struct digits_pass pass = {.capacity = capacity};
	int err = 0;

	pass.labels = calloc((size_t)capacity, sizeof(*pass.labels));
	if (!pass.labels) {
		err = -ENOMEM;
	}
	for (int i = 0; i <= network->shape.nlayers; i++) {
		size_t count = (size_t)capacity * (size_t)network->shape.widths[i];

		pass.activations[i] = calloc(count, sizeof(float));
		pass.deltas[i] = calloc(count, sizeof(float));
		if (!pass.activations[i] || !pass.deltas[i]) {
			err = -ENOMEM;
		}
	}
	if (err) {
		digits_pass_free(&pass);
		return err;
	}
	*out = pass;
	return 0;
}

void digits_pass_free(struct digits_pass *pass)
{
	free(pass->labels);
	for (int i = 0; i <= DIGITS_LAYERS_MAX; i++) {
		free(pass->activations[i]);
		free(pass->deltas[i]);
	}
	*pass = (struct digits_pass){0};
}

void digits_pass_fill(struct digits_pass *pass, const struct digits_dataset *dataset,
	const uint32_t *examples, int batch)
{
	for (int b = 0; b < batch; b++) {
		memcpy(pass->activations[0] + (size_t)b * DIGITS_PIXELS,
			dataset->pixels[examples[b]], sizeof(dataset->pixels[0]));
		pass->labels[b] = dataset->labels[examples[b]];
	}
	pass->batch = batch;
}

/* y += a x: every loop over parameters below is one of these, which vectorises without
 * reordering any sum. */
static void axpy(float *restrict y, float a, const float *restrict x, int count)
{
	for (int i = 0; i < count; i++) {
		y[i] += a * x[i];
	}
}

void digits_network_forward(const struct digits_network *network, struct digits_pass *pass)
{
	for (int i = 0; i < network->shape.nlayers; i++) {
		const struct digits_layer *layer = &network->layers[i];
		const float *weights = network->parameters + layer->weights;
		const float *in = pass->activations[i];
		float *out = pass->activations[i + 1];
		int is_last = i == network->shape.nlayers - 1;

		for (int b = 0; b < pass->batch; b++, in += layer->inputs, out += layer->outputs) {
			memcpy(out, network->parameters + layer->biases,
				(size_t)layer->outputs * sizeof(float));
			for (int k = 0; k < layer->inputs; k++) {
				axpy(out, in[k], weights + (size_t)k * (size_t)layer->outputs,
					layer->outputs);
			}
			for (int k = 0; !is_last && k < layer->outputs; k++) {
				out[k] = out[k] > 0.0f ? out[k] : 0.0f;
			}
		}
	}
}

/* The place of the largest; the first of equals. */
static int largest(const float *values, int count)
{
	int best = 0;

	for (int i = 1; i < count; i++) {
		best = values[i] > values[best] ? i : best;
	}
	return best;
}

void digits_network_score(
	const struct digits_network *network, struct digits_pass *pass, struct digits_score *score)
{
	int last = network->shape.nlayers;
	int classes = network->shape.widths[last];

	for (int b = 0; b < pass->batch; b++) {
		const float *out = pass->activations[last] + (size_t)b * (size_t)classes;
		float *delta = pass->deltas[last] + (size_t)b * (size_t)classes;
		int label = pass->labels[b];
		int answer = largest(out, classes);
		float sum = 0.0f;

		/* Less the largest output, so that expf() cannot overflow. */
		for (int k = 0; k < classes; k++) {
			delta[k] = expf(out[k] - out[answer]);
			sum += delta[k];
		}
		for (int k = 0; k < classes; k++) {
			delta[k] =
				(delta[k] / sum - (k == label ? 1.0f : 0.0f)) / (float)pass->batch;
		}
		score->loss += (double)(logf(sum) - (out[label] - out[answer]));
		score->correct += answer == label;
		score->count++;
	}
}

/* The layer's inputs are the activations of the one before: where ReLU was flat, nothing flows. */
static void propagate(const struct digits_network *network, struct digits_pass *pass, int index)
{
	const struct digits_layer *layer = &network->layers[index];
	const float *in = pass->activations[index];
	const float *delta = pass->deltas[index + 1];
	float *before = pass->deltas[index];

	for (int b = 0; b < pass->batch; b++) {
		const float *weights = network->parameters + layer->weights;

		for (int k = 0; k < layer->inputs; k++, weights += layer->outputs) {
			float sum = 0.0f;

			for (int o = 0; in[k] > 0.0f && o < layer->outputs; o++) {
				sum += weights[o] * delta[o];
			}
			before[k] = sum;
		}
		in += layer->inputs;
		before += layer->inputs;
		delta += layer->outputs;
	}
}

void digits_network_backward(
	const struct digits_network *network, struct digits_pass *pass, int index, float *gradient)
{
	const struct digits_layer *layer = &network->layers[index];
	const float *in = pass->activations[index];
	const float *delta = pass->deltas[index + 1];

	memset(gradient + layer->weights, 0, layer->nparameters * sizeof(float));
	for (int b = 0; b < pass->batch; b++, in += layer->inputs, delta += layer->outputs) {
		float *weights = gradient + layer->weights;

		for (int k = 0; k < layer->inputs; k++, weights += layer->outputs) {
			axpy(weights, in[k], delta, layer->outputs);
		}
		axpy(gradient + layer->biases, 1.0f, delta, layer->outputs);
	}
	if (index > 0) {
		propagate(network, pass, index);
	}
}
