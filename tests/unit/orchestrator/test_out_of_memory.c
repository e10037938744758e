/*
 * The n-th allocation fails, for every n: a spec then becomes an error, never a crash or a leak.
 *
 * The linker sends the front end's allocations here (see CMakeLists.txt); jansson's come through
 * its own hook.
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

static long countdown; /* allocations until the one that fails; negative: none fails */

static int fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
int __real_vasprintf(char **out, const char *format, va_list args);
FILE *__real_open_memstream(char **text, size_t *length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
int __wrap_vasprintf(char **out, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
FILE *__wrap_open_memstream(char **text, size_t *length);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails() ? NULL : __real_strndup(text, length);
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
	return fails() ? -1 : __real_vasprintf(out, format, args);
}

int __wrap_asprintf(char **out, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = __wrap_vasprintf(out, format, args);
	va_end(args);
	return length;
}

FILE *__wrap_open_memstream(char **text, size_t *length)
{
	return fails() ? NULL : __real_open_memstream(text, length);
}

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

		countdown = n;
		ret = try_once(name, text, &diagnostics);
		failed = countdown < 0;
		countdown = -1;
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

	countdown = -1;
	json_set_alloc_funcs(__wrap_malloc, free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
