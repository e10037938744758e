/*
 * The n-th allocation fails, for every n: a spec then becomes an error, never a crash or a leak.
 *
 * jansson's allocations come through its own hook.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/frontend/vertex/custom_job.h"
#include "tests/unit/shortage/shortage.h"

/* From the text to a replica's command line, and everything freed again. */
static int go_all_the_way(const struct smd_job *job)
{
	struct smd_placement placement;
	struct smd_contract *contract;
	struct smd_environment environment;
	char **argv;
	int ret = smd_placement_vertex(job, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(job, &placement, &contract);
	if (ret) {
		goto free_placement;
	}
	ret = smd_contract_environment(contract, 1, 0, 0, &environment);
	if (ret) {
		goto free_contract;
	}
	ret = smd_contract_argv(contract, 1, 0, &environment, &argv);
	if (!ret) {
		smd_argv_free(argv);
	}
	smd_environment_free(&environment);
free_contract:
	smd_contract_free(contract);
free_placement:
	smd_placement_free(&placement);
	return ret;
}

static int try_once(const char *name, const char *text, struct smd_diagnostics *diagnostics)
{
	struct smd_node *document;
	struct smd_job *job;
	int ret = smd_document_parse(name, text, strlen(text), diagnostics, &document);

	if (ret) {
		return ret;
	}
	ret = smd_custom_job_decode(document, diagnostics, &job);
	smd_node_free(document);
	if (ret) {
		return ret;
	}
	ret = go_all_the_way(job);
	smd_job_free(job);
	return ret;
}

/* Lets each allocation fail once; `last` is what must come out when none does. */
static void fail_everywhere(const char *name, const char *text, int last)
{
	struct smd_diagnostics diagnostics = {.count = 0};
	int failed = 1;
	long n = 0;

	for (; failed; n++) {
		int ret;

		shortage_begin(n);
		ret = try_once(name, text, &diagnostics);
		failed = shortage_end();
		smd_diagnostics_clear(&diagnostics);
		/* A diagnostic's text may get lost; and jansson takes a token that it has no
		 * memory for as an invalid one. */
		assert_true(ret == last || (failed && (ret == -ENOMEM || ret == -EINVAL)));
	}
	assert_true(n > 50);
}

static const char good_json[] =
	"{\"displayName\": \"d\", \"labels\": {\"a\": \"b\"}, \"jobSpec\": {"
	"\"baseOutputDirectory\": {\"outputUriPrefix\": \"gs://b\"}, \"workerPoolSpecs\": ["
	"{\"machineSpec\": {\"machineType\": \"n1-standard-4\", \"acceleratorType\": "
	"\"NVIDIA_TESLA_T4\"}, \"containerSpec\": {\"imageUri\": \"a\", \"command\": [\"b\"]}},"
	"{\"containerSpec\": {\"imageUri\": \"a\", \"command\": [\"$(RANK)\"], \"args\": [\"c\"],"
	"\"env\": [{\"name\": \"A\", \"value\": \"$(RANK)\"}, {\"name\": \"RANK\"}]}},"
	"{\"replicaCount\": 2, \"containerSpec\": {\"imageUri\": \"reductionserver\"}}]}}";

static void a_good_spec_in_json(void **state)
{
	(void)state;
	fail_everywhere("a.json", good_json, 0);
}

static void a_good_spec_in_yaml(void **state)
{
	(void)state;
	fail_everywhere("a.yaml", good_json, 0); /* JSON is YAML too */
}

static void a_spec_with_errors(void **state)
{
	(void)state;
	fail_everywhere("a.json",
		"{\"workerPoolSpecs\": [{\"replicaCount\": 2, \"containerSpec\": {\"imageUri\": 1},"
		" \"x\": 1}, {\"replica_count\": -1, \"machineSpec\": {\"machineType\": \"M\"}}]}",
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_spec_in_json),
		cmocka_unit_test(a_good_spec_in_yaml),
		cmocka_unit_test(a_spec_with_errors),
	};

	json_set_alloc_funcs(shortage_malloc, free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
