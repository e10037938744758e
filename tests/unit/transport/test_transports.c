/*
 * What a new transport has to touch: its folder and the table. Here the table has a made-up one,
 * and everything that chooses or names transports knows it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reduction_server/transport/transports.h"
#include "worker/libsummand/config.h"

static const struct smd_transport_ops pigeon = {.name = "pigeon", .preference = 4};
static const struct smd_transport_ops snail = {.name = "snail"};

/* Takes the place of transports.c. */
const struct smd_transport_ops *const smd_transports[] = {
	&smd_transport_tcp,
	&snail,
	&smd_transport_rdma,
	&smd_transport_shm,
	&pigeon,
	NULL,
};

static void each_is_found_by_its_name(void **state)
{
	const struct smd_transport_ops *found[SMD_TRANSPORTS_MAX];

	(void)state;
	for (unsigned i = 0; smd_transports[i]; i++) {
		assert_ptr_equal(smd_transport_find(smd_transports[i]->name), smd_transports[i]);
		assert_int_equal(smd_transport_select(smd_transports[i]->name, found), 1);
		assert_ptr_equal(found[0], smd_transports[i]);
	}
	assert_null(smd_transport_find("auto"));
	assert_int_equal(smd_transport_select("telegraph", found), 0);
}

static void auto_goes_by_preference_and_leaves_out_who_has_none(void **state)
{
	const struct smd_transport_ops *found[SMD_TRANSPORTS_MAX];

	(void)state;
	assert_int_equal(smd_transport_select("auto", found), 4);
	assert_ptr_equal(found[0], &pigeon);
	assert_ptr_equal(found[1], &smd_transport_shm);
	assert_ptr_equal(found[2], &smd_transport_rdma);
	assert_ptr_equal(found[3], &smd_transport_tcp);
}

static void names_are_those_of_the_table(void **state)
{
	char names[SMD_TRANSPORT_NAMES_MAX];

	(void)state;
	assert_string_equal(smd_transport_names(names), "auto, pigeon, shm, rdma or tcp");
}

/* Reads what a worker is told: its servers, and `transport`. */
static int read_config(const char *transport, struct smd_config *config, struct smd_error *error)
{
	const struct smd_context_options options = {
		.servers = "127.0.0.1:2222", .transport = transport};

	return smd_config_read(&options, config, error);
}

static void a_worker_may_ask_for_it(void **state)
{
	struct smd_error error = {""};
	struct smd_config config;

	(void)state;
	assert_int_equal(read_config("pigeon", &config, &error), 0);
	assert_int_equal(config.ntransports, 1);
	assert_ptr_equal(config.transports[0], &pigeon);
	smd_config_free(&config);
	assert_int_equal(read_config("auto", &config, &error), 0);
	assert_int_equal(config.ntransports, 4);
	assert_ptr_equal(config.transports[0], &pigeon);
	smd_config_free(&config);
	assert_int_not_equal(read_config("telegraph", &config, &error), 0);
	assert_string_equal(error.text,
		"SUMMAND_TRANSPORT: must be auto, pigeon, shm, rdma or tcp, got \"telegraph\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_found_by_its_name),
		cmocka_unit_test(auto_goes_by_preference_and_leaves_out_who_has_none),
		cmocka_unit_test(names_are_those_of_the_table),
		cmocka_unit_test(a_worker_may_ask_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
