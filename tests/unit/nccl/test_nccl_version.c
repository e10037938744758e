/* Which NCCL has loaded the plugin: the one whose logger it was given, though others are there too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <string.h>

#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/version.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/plugin.h"

int ncclGetVersion(int *version);

static void own_log(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...)
{
	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	(void)format;
}

static nccl_logger *logger_of(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol;
	nccl_logger *log;

	assert_non_null(library);
	symbol = dlsym(library, "fake_log");
	assert_non_null(symbol);
	memcpy(&log, &symbol, sizeof(log));
	return log;
}

static void a_library_is_asked_for_its_version(void **state)
{
	(void)state;
	assert_int_equal(smd_nccl_version(logger_of(SHOWN)), 22304);
}

/* This program passes for one that NCCL was linked into. */
__attribute__((visibility("default"))) int ncclGetVersion(int *version)
{
	*version = 22305;
	return 0;
}

static void a_program_that_has_it_is_asked(void **state)
{
	(void)state;
	assert_int_equal(smd_nccl_version(own_log), 22305);
}

static void one_that_shows_none_has_none(void **state)
{
	(void)state;
	assert_int_equal(smd_nccl_version(logger_of(HIDDEN)), 0);
	assert_int_equal(smd_nccl_version(NULL), 0);
}

/* The numbers of the levels at which a warning, an information and a trace come there. */
static void assert_levels(const char *path, int warning, int information, int trace)
{
	nccl_logger *log = logger_of(path);
	int *level = dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "fake_level");

	assert_non_null(level);
	smd_nccl_log_open(log);
	smd_nccl_log_warn("a warning");
	assert_int_equal(*level, warning);
	smd_nccl_log_info(NCCL_SUB_NET, "an information");
	assert_int_equal(*level, information);
	smd_nccl_log_write(NCCL_LOG_TRACE, NCCL_SUB_NET, "a trace");
	assert_int_equal(*level, trace);
}

/* RCCL has one for errors before those of warnings, from 2.28 on for sure. */
static void levels_are_those_of_the_library(void **state)
{
	(void)state;
	assert_levels(SHOWN, 2, 3, 5);
	assert_levels(AMDS, 2, 3, 5);
	assert_levels(NEW_AMDS, 3, 4, 6);
	assert_levels(HIDDEN, 2, 3, 5);
}

static bool sums(int dtype)
{
	int supported = -1;

	assert_int_equal(smd_collnet_reduce_support(dtype, NCCL_SUM, &supported), NCCL_SUCCESS);
	return supported != 0;
}

/* Its types of 8 bits have these numbers, and other values. */
static void rccl_keeps_its_types_of_8_bits(void **state)
{
	(void)state;
	assert_false(smd_nccl_is_rccl(logger_of(SHOWN)));
	assert_true(smd_nccl_is_rccl(logger_of(AMDS)));
	smd_plugin_begin(logger_of(SHOWN));
	assert_true(sums(NCCL_FLOAT8E4M3) && sums(NCCL_FLOAT8E5M2));
	smd_plugin_begin(logger_of(AMDS));
	assert_false(sums(NCCL_FLOAT8E4M3) || sums(NCCL_FLOAT8E5M2));
	assert_true(sums(NCCL_FLOAT32) && sums(NCCL_BFLOAT16));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_library_is_asked_for_its_version),
		cmocka_unit_test(a_program_that_has_it_is_asked),
		cmocka_unit_test(one_that_shows_none_has_none),
		cmocka_unit_test(levels_are_those_of_the_library),
		cmocka_unit_test(rccl_keeps_its_types_of_8_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
