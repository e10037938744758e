/*
 * A front end is a folder and a row of the table. A made-up one, added to the table that is
 * shipped, is recognised, listed, converted, and takes flags; and no file of the orchestrator but
 * the table names a front end's folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/job_flags.h"

#define ROWS_MAX 16

/* {"say": TEXT, "times": N} runs `echo TEXT` in N replicas. */
static int say_is(const struct smd_node *document)
{
	return smd_node_member(document, "say") != NULL;
}

static int say_convert(struct smd_conversion *conversion, struct smd_node **document)
{
	const struct smd_node *times = smd_node_member(*document, "times");
	const struct smd_node *say = smd_node_member(*document, "say");
	char text[512];
	struct smd_node *job;

	snprintf(text, sizeof(text),
		"{\"workerPoolSpecs\": [{\"containerSpec\": {\"imageUri\": \"say\", \"command\": "
		"[\"echo\", \"%s\"]}}, {\"replicaCount\": %d, \"containerSpec\": {\"imageUri\": "
		"\"say\", \"command\": [\"echo\", \"%s\"]}}]}",
		say->string, (int)times->number.integer - 1, say->string);
	assert_int_equal(
		smd_document_parse_json(text, strlen(text), conversion->diagnostics, &job), 0);
	smd_node_free(*document);
	*document = job;
	conversion->code_dir = strdup("/say");
	return 0;
}

static void apply_loudly(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_variable(edit, flag->field, values[count - 1].value, values[count - 1].at);
}

static const struct smd_job_flag say_rows[] = {
	SMD_FLAG("loudly", "HOW", "how to say it", apply_loudly, .field = "LOUDLY"),
};
static const struct smd_flag_family say_flags = SMD_FLAG_FAMILY(say_rows);

/* The table that is shipped, and one more row. */
static const struct smd_frontend *table_with_say(struct smd_frontend table[ROWS_MAX])
{
	size_t n = 0;

	for (; !smd_frontend_is_end(&smd_frontends[n]); n++) {
		assert_true(n + 2 < ROWS_MAX);
		table[n] = smd_frontends[n];
	}
	table[n] = (struct smd_frontend){.name = "a job that says something",
		.recognises = say_is,
		.convert = say_convert,
		.flags = &say_flags};
	table[n + 1] = (struct smd_frontend){.name = NULL};
	return table;
}

static void what_is_accepted_is_listed_from_the_table(void **state)
{
	struct smd_frontend table[ROWS_MAX];
	char *names = smd_frontend_names(table_with_say(table));

	(void)state;
	assert_string_equal(names,
		"a CustomJob, a CustomJobSpec, a HyperparameterTuningJob, a TrainingPipeline, a "
		"command job of Azure "
		"ML, a run configuration of its version 1 or a job that says something");
	free(names);
}

/* The job of a document, by the table and a command line; NULL: refused. */
static struct smd_job *load(const struct smd_frontend *table, const char *text, int argc,
	char **argv, struct smd_diagnostics *diagnostics)
{
	static const struct smd_command command = {.synopsis = "test"};
	struct smd_conversion conversion = {.directory = ".", .diagnostics = diagnostics};
	struct smd_job_edit edit = {.diagnostics = diagnostics};
	struct smd_job_flags *flags;
	struct smd_node *document;
	struct smd_job *job = NULL;
	int noperands;
	int ret;

	assert_int_equal(smd_job_flags_create(table, &flags), 0);
	assert_int_equal(smd_options_parse(smd_job_flags_command(flags, &command), argc, argv,
				 &noperands, NULL),
		0);
	assert_int_equal(smd_document_parse_json(text, strlen(text), diagnostics, &document), 0);
	ret = smd_frontend_convert(table, &conversion, &document);
	edit.code_dir = conversion.code_dir;
	ret = ret ? ret : smd_job_flags_apply(flags, NULL, 0, &edit, &document);
	ret = ret ? ret : smd_frontend_decode(document, diagnostics, &job);
	ret = ret ? ret : smd_job_edit_finish(&edit, job);
	assert_int_equal(ret == 0, diagnostics->found[SMD_SEVERITY_ERROR] == 0);
	smd_node_free(document);
	smd_job_edit_free(&edit);
	smd_job_flags_free(flags);
	return job;
}

static void a_new_row_becomes_a_job_like_any_other(void **state)
{
	static const char text[] = "{\"say\": \"hello\", \"times\": 3}";
	char loudly[] = "--loudly=very";
	char *argv[] = {(char *)"test", loudly, NULL};
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	struct smd_frontend table[ROWS_MAX];
	struct smd_job *job = load(table_with_say(table), text, 2, argv, diagnostics);

	(void)state;
	assert_non_null(job);
	assert_int_equal(smd_job_replica_count(job), 3);
	assert_string_equal(job->pools[1].command[1], "hello");
	assert_string_equal(job->pools[1].env[0].name, "LOUDLY");
	assert_string_equal(job->pools[1].env[0].value, "very");
	assert_string_equal(job->code_dir, "/say");
	assert_int_equal(diagnostics->count, 0);
	smd_job_free(job);
	free(diagnostics);
}

static void without_its_row_it_is_refused(void **state)
{
	static const char text[] = "{\"say\": \"hello\", \"times\": 3}";
	char *argv[] = {(char *)"test", NULL};
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));

	(void)state;
	assert_null(load(smd_frontends, text, 1, argv, diagnostics));
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
}

static void at_most_one_row_of_the_api_recognises_a_document(void **state)
{
	static const struct {
		const char *text;
		const char *name;
	} documents[] = {
		{"{\"displayName\": \"a\", \"jobSpec\": {}}", "a CustomJob"},
		{"{\"labels\": {}}", "a CustomJob"},
		{"{\"workerPoolSpecs\": []}", "a CustomJobSpec"},
		{"{\"displayName\": \"a\", \"trialJobSpec\": {}}", "a HyperparameterTuningJob"},
		{"{\"display_name\": \"a\", \"command\": \"b\"}", "a command job of Azure ML"},
		{"{\"script\": \"a\", \"command\": \"b\"}", "a run configuration of its version 1"},
		{"{\"$schema\": \"https://azuremlschemas.azureedge.net/x\"}",
			"a command job of Azure ML"},
		{"{\"spec\": {}}", NULL},
		{"[]", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
		const struct smd_frontend *found;
		struct smd_node *document;

		assert_int_equal(smd_document_parse_json(documents[i].text,
					 strlen(documents[i].text), diagnostics, &document),
			0);
		found = smd_frontend_find(smd_frontends, document);
		if (documents[i].name) {
			assert_string_equal(found->name, documents[i].name);
		} else {
			assert_null(found);
		}
		smd_node_free(document);
		free(diagnostics);
	}
}

/* The folder of a front end that a line includes a header of; NULL: of none. */
static const char *included_folder(const char *line, char folder[64])
{
	char header[128];

	if (sscanf(line, "#include \"orchestrator/frontend/%63[^/\"]/%127[^\"]\"", folder,
		    header) != 2) {
		return NULL;
	}
	return folder;
}

/* A file of a front end's folder may name that folder, the table all; torch-run is a command of its
 * own, which names its front end. */
static int may_include(const char *path, const char *folder)
{
	char own[128];

	snprintf(own, sizeof(own), "orchestrator/frontend/%s/", folder);
	return strstr(path, own) || strstr(path, "orchestrator/frontend/frontends.c") ||
	       (strstr(path, "orchestrator/cli/torch_run.c") && strcmp(folder, "torch") == 0);
}

static size_t check_file(const char *path)
{
	char line[512];
	char folder[64];
	size_t count = 0;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (!included_folder(line, folder)) {
			continue;
		}
		count++;
		if (!may_include(path, folder)) {
			fail_msg("%s: must not name the front end %s: %s", path, folder, line);
		}
	}
	fclose(file);
	return count;
}

static void only_the_table_names_a_front_end(void **state)
{
	static const char *const patterns[] = {
		"orchestrator/*/*.[ch]", "orchestrator/*/*/*.[ch]", "worker/agent/*.[ch]"};
	const char *source = getenv("SUMMAND_SOURCE");
	size_t includes = 0;

	(void)state;
	if (!source) {
		skip();
	}
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		char pattern[512];
		glob_t found;

		snprintf(pattern, sizeof(pattern), "%s/%s", source, patterns[i]);
		assert_int_equal(glob(pattern, 0, NULL, &found), 0);
		for (size_t n = 0; n < found.gl_pathc; n++) {
			includes += check_file(found.gl_pathv[n]);
		}
		globfree(&found);
	}
	assert_true(includes >= 8); /* the check sees what it looks for */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_accepted_is_listed_from_the_table),
		cmocka_unit_test(a_new_row_becomes_a_job_like_any_other),
		cmocka_unit_test(without_its_row_it_is_refused),
		cmocka_unit_test(at_most_one_row_of_the_api_recognises_a_document),
		cmocka_unit_test(only_the_table_names_a_front_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
