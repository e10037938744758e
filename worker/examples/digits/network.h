/*
 * The network: a multi-layer perceptron, and how examples pass through it and back.
 *
 * All parameters lie in one flat array, layer after layer, each layer's weights before its biases.
 * A gradient is an array of the same layout, so that a layer's gradient is one contiguous piece:
 * what a trainer all-reduces as soon as that layer's backward pass is done.
 *
 * Every sum is taken in a fixed order and with plain float arithmetic, so that the same inputs
 * give the same bits.
 */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/digits/dataset.h"

#define DIGITS_LAYERS_MAX 8
#define DIGITS_WIDTH_MAX  1024

/* The widths of the network, from its inputs to its outputs: 64, 128, 64, 10. */
struct digits_shape {
	int nlayers; /* one less than the widths */
	int widths[DIGITS_LAYERS_MAX + 1];
};

/* One layer: outputs = inputs x weights + biases, then ReLU unless it is the last. */
struct digits_layer {
	int inputs;
	int outputs;
	size_t weights; /* where they begin: weights[input][output] */
	size_t biases;
	size_t nparameters; /* weights and biases, from `weights` on */
};

struct digits_network {
	struct digits_shape shape;
	struct digits_layer layers[DIGITS_LAYERS_MAX];
	size_t nparameters;
	float *parameters;
};

/* A batch of examples on its way through the network. */
struct digits_pass {
	int capacity;                              /* examples that it has room for */
	int batch;                                 /* examples that are in it */
	uint8_t *labels;                           /* [example] */
	float *activations[DIGITS_LAYERS_MAX + 1]; /* [example][width]; 0 are the inputs */
	float *deltas[DIGITS_LAYERS_MAX + 1];      /* d loss / d activations before ReLU */
};

/* How well a network did on a number of examples. */
struct digits_score {
	double loss; /* summed */
	int correct;
	int count;
};

/* Whether the shape is one of a network for this data set: -EINVAL with a text if not. */
int digits_shape_check(const struct digits_shape *shape, struct smd_error *error);

/* A network with all parameters 0. The shape must have passed its check. */
int digits_network_create(const struct digits_shape *shape, struct digits_network *out);
void digits_network_free(struct digits_network *network);

/* Draws the initial weights: the same for the same seed, everywhere. */
void digits_network_init(struct digits_network *network, uint64_t seed);

/* A hash of the parameters' bits: two networks of one shape are equal when their hashes are. */
uint64_t digits_network_hash(const struct digits_network *network);

int digits_pass_create(const struct digits_network *network, int capacity, struct digits_pass *out);
void digits_pass_free(struct digits_pass *pass);

/* Takes examples[0 .. batch-1] of the data set in; batch must not exceed the capacity. */
void digits_pass_fill(struct digits_pass *pass, const struct digits_dataset *dataset,
	const uint32_t *examples, int batch);

void digits_network_forward(const struct digits_network *network, struct digits_pass *pass);

/*
 * Softmax cross-entropy of the outputs: adds to the score, and leaves d (mean loss) / d outputs in
 * the pass, for the backward pass.
 */
void digits_network_score(
	const struct digits_network *network, struct digits_pass *pass, struct digits_score *score);

/*
 * One layer's backward pass: writes its piece of the gradient, and the deltas of the layer before.
 * Call for the last layer first.
 */
void digits_network_backward(
	const struct digits_network *network, struct digits_pass *pass, int layer, float *gradient);

#endif
