/* Calls the tuner's tables, whichever version of NCCL they are of. */
#include "tests/unit/nccl/tuner_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *library;
unsigned informed, warned;
char last_line[1024];

static void log_line(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	va_list args;

	(void)file;
	(void)line;
	va_start(args, format);
	vsnprintf(last_line, sizeof(last_line), format, args);
	va_end(args);
	warned += level == NCCL_LOG_WARN;
	informed += level == NCCL_LOG_INFO && subsystems == NCCL_SUB_TUNING;
}

void *table_of(const char *name)
{
	void *table = dlsym(library, name);

	assert_non_null(table);
	return table;
}

/* One interface to the versions that show costs. */
void *open_tuner_for(int version, size_t nranks, size_t nnodes)
{
	void *ctx = &ctx;

	if (version == 2) {
		const struct nccl_tuner_v2 *v2 = table_of("ncclTunerPlugin_v2");

		assert_int_equal(v2->init(nranks, nnodes, log_line, &ctx), NCCL_SUCCESS);
	} else if (version == 3) {
		const struct nccl_tuner_v3 *v3 = table_of("ncclTunerPlugin_v3");

		assert_int_equal(v3->init(nranks, nnodes, log_line, &ctx), NCCL_SUCCESS);
	} else if (version == 4) {
		const struct nccl_tuner_v4 *v4 = table_of("ncclTunerPlugin_v4");

		assert_int_equal(v4->init(nranks, nnodes, log_line, &ctx), NCCL_SUCCESS);
	} else {
		const struct nccl_tuner_v5 *v5 = table_of("ncclTunerPlugin_v5");
		struct nccl_nvl_domain_v5 domain = {(int)nnodes, 2, 2};

		assert_int_equal(
			v5->init(&ctx, 1, nranks, nnodes, log_line, &domain, NULL), NCCL_SUCCESS);
	}
	return ctx;
}

void *open_tuner(int version, size_t nnodes)
{
	return open_tuner_for(version, 2 * nnodes, nnodes);
}

void ask(int version, void *ctx, int function, size_t bytes, costs table)
{
	int nchannels = UNTOUCHED;
	float **rows = (float **)table;

	if (version == 3) {
		const struct nccl_tuner_v3 *v3 = table_of("ncclTunerPlugin_v3");

		assert_int_equal(v3->getCollInfo(ctx, function, bytes, 1, rows, ALGORITHMS,
					 PROTOCOLS, &nchannels),
			NCCL_SUCCESS);
	} else if (version == 4) {
		const struct nccl_tuner_v4 *v4 = table_of("ncclTunerPlugin_v4");

		assert_int_equal(v4->getCollInfo(ctx, function, bytes, 1, rows, ALGORITHMS,
					 PROTOCOLS, 0, &nchannels),
			NCCL_SUCCESS);
	} else {
		const struct nccl_tuner_v5 *v5 = table_of("ncclTunerPlugin_v5");

		assert_int_equal(v5->getCollInfo(ctx, function, bytes, 1, rows, ALGORITHMS,
					 PROTOCOLS, 1, &nchannels),
			NCCL_SUCCESS);
	}
	assert_int_equal(nchannels, UNTOUCHED);
}

void close_tuner(int version, void *ctx)
{
	int ret;

	if (version == 2) {
		ret = ((const struct nccl_tuner_v2 *)table_of("ncclTunerPlugin_v2"))->destroy(ctx);
	} else if (version == 3) {
		ret = ((const struct nccl_tuner_v3 *)table_of("ncclTunerPlugin_v3"))->destroy(ctx);
	} else if (version == 4) {
		ret = ((const struct nccl_tuner_v4 *)table_of("ncclTunerPlugin_v4"))->destroy(ctx);
	} else {
		ret = ((const struct nccl_tuner_v5 *)table_of("ncclTunerPlugin_v5"))->finalize(ctx);
	}
	assert_int_equal(ret, NCCL_SUCCESS);
}

int variables_of_a_job(void **state)
{
	(void)state;
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1", 1);
	unsetenv("CLUSTER_SPEC");
	unsetenv("SUMMAND_NCCL_SERVER_LINKS");
	setenv("SUMMAND_NCCL_MIN_BYTES", "1M", 1);
	unsetenv("NCCL_ALGO");
	unsetenv("NCCL_PROTO");
	return 0;
}

void give_servers(unsigned n)
{
	char servers[256] = "127.0.0.1:1";

	for (unsigned i = 2; i <= n; i++) {
		size_t used = strlen(servers);

		snprintf(servers + used, sizeof(servers) - used, ",127.0.0.1:%u", i);
	}
	setenv("SUMMAND_REDUCTION_SERVERS", servers, 1);
	unsetenv("SUMMAND_NCCL_MIN_BYTES");
}

bool tuner_tables_open(void)
{
	library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
	}
	return library != NULL;
}
