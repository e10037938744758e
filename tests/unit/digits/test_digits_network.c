/* The network: its gradient against finite differences, its shape, its bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "worker/examples/digits/network.h"
#include "worker/examples/digits/prng.h"

#define BATCH 4

static const struct digits_shape small = {3, {DIGITS_PIXELS, 12, 9, DIGITS_CLASSES}};

/* A batch of noise, the same for the same seed. */
static void fill(struct digits_pass *pass, uint64_t seed)
{
	struct digits_prng prng = digits_prng_create(seed, 9);

	for (int i = 0; i < BATCH * DIGITS_PIXELS; i++) {
		pass->activations[0][i] = fabsf(digits_prng_symmetric(&prng));
	}
	for (int i = 0; i < BATCH; i++) {
		pass->labels[i] = (uint8_t)digits_prng_below(&prng, DIGITS_CLASSES);
	}
	pass->batch = BATCH;
}

static double mean_loss(const struct digits_network *network, struct digits_pass *pass)
{
	struct digits_score score = {0};

	digits_network_forward(network, pass);
	digits_network_score(network, pass, &score);
	assert_int_equal(score.count, BATCH);
	return score.loss / BATCH;
}

static void the_gradient_is_the_slope_of_the_loss(void **state)
{
	const float h = 1.0f / 256;
	struct digits_network network;
	struct digits_pass pass;
	float *gradient;

	(void)state;
	assert_int_equal(digits_network_create(&small, &network), 0);
	assert_int_equal(digits_pass_create(&network, BATCH, &pass), 0);
	gradient = calloc(network.nparameters, sizeof(float));
	assert_non_null(gradient);
	digits_network_init(&network, 3);
	fill(&pass, 4);
	mean_loss(&network, &pass);
	for (int i = network.shape.nlayers - 1; i >= 0; i--) {
		digits_network_backward(&network, &pass, i, gradient);
	}
	for (size_t i = 0; i < network.nparameters; i++) {
		float was = network.parameters[i];
		double above;
		double below;
		double slope;

		network.parameters[i] = was + h;
		above = mean_loss(&network, &pass);
		network.parameters[i] = was - h;
		below = mean_loss(&network, &pass);
		network.parameters[i] = was;
		slope = (above - below) / (2 * (double)h);
		assert_true(fabs(slope - (double)gradient[i]) < 0.002 + 0.02 * fabs(slope));
	}
	free(gradient);
	digits_pass_free(&pass);
	digits_network_free(&network);
}

static void the_loss_of_no_knowledge(void **state)
{
	struct digits_network network;
	struct digits_pass pass;

	(void)state;
	assert_int_equal(digits_network_create(&small, &network), 0);
	assert_int_equal(digits_pass_create(&network, BATCH, &pass), 0);
	fill(&pass, 1);
	assert_true(fabs(mean_loss(&network, &pass) - log(DIGITS_CLASSES)) < 1e-6);
	digits_pass_free(&pass);
	digits_network_free(&network);
}

static void layers_tile_the_parameters(void **state)
{
	struct digits_network network;
	size_t next = 0;

	(void)state;
	assert_int_equal(digits_network_create(&small, &network), 0);
	for (int i = 0; i < network.shape.nlayers; i++) {
		assert_int_equal(network.layers[i].weights, next);
		next += network.layers[i].nparameters;
	}
	assert_int_equal(next, network.nparameters);
	assert_int_equal(next, 64 * 12 + 12 + 12 * 9 + 9 + 9 * 10 + 10);
	digits_network_free(&network);
}

static void the_seed_decides_the_weights(void **state)
{
	struct digits_network network;
	uint64_t hash;

	(void)state;
	assert_int_equal(digits_network_create(&small, &network), 0);
	digits_network_init(&network, 1);
	hash = digits_network_hash(&network);
	digits_network_init(&network, 2);
	assert_true(digits_network_hash(&network) != hash);
	digits_network_init(&network, 1);
	assert_true(digits_network_hash(&network) == hash);
	digits_network_free(&network);
}

static void shapes_that_are_none(void **state)
{
	static const struct {
		struct digits_shape shape;
		const char *text;
	} cases[] = {
		{{0, {64}}, "layers: must be 1 to 8, got 0"},
		{{9, {64}}, "layers: must be 1 to 8, got 9"},
		{{2, {64, 0, 10}}, "width 1: must be 1 to 1024, got 0"},
		{{2, {64, 1025, 10}}, "width 1: must be 1 to 1024, got 1025"},
		{{1, {63, 10}}, "network: must take 64 pixels to 10 classes, got 63 to 10"},
	};

	(void)state;
	assert_int_equal(digits_shape_check(&small, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_error error = {""};

		assert_int_equal(digits_shape_check(&cases[i].shape, &error), -EINVAL);
		assert_string_equal(error.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_gradient_is_the_slope_of_the_loss),
		cmocka_unit_test(the_loss_of_no_knowledge),
		cmocka_unit_test(layers_tile_the_parameters),
		cmocka_unit_test(the_seed_decides_the_weights),
		cmocka_unit_test(shapes_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
