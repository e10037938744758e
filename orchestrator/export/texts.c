/* Derives a pool's texts from what the contract gives to its processes. */
#include "orchestrator/export/texts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX   15
#define OTHER_PORT   7 /* further than the placement's master_port */
#define SAMPLES      4
#define BASE         0
#define NEXT_REPLICA 1
#define NEXT_PROCESS 2
#define NEXT_PORT    3

/* What one process gets, as the contract says it. */
struct process_strings {
	struct smd_environment environment;
	char **argv;
};

/* Contracts of the same job: where others find its replicas, and where its servers listen. */
struct contract_pair {
	struct smd_contract *reached;
	struct smd_contract *listening;
};

static int open_pair(const struct smd_job *job, const struct smd_placement *placement,
	const struct smd_placement *listening, struct contract_pair *pair)
{
	int ret = smd_contract_create(job, placement, &pair->reached);

	return ret ? ret : smd_contract_create(job, listening, &pair->listening);
}

static void close_pair(struct contract_pair *pair)
{
	smd_contract_free(pair->reached);
	smd_contract_free(pair->listening);
	*pair = (struct contract_pair){NULL, NULL};
}

static int read_process(const struct contract_pair *pair, const struct smd_job *job, int pool,
	int index, int process, struct process_strings *out)
{
	int is_server = job->pools[pool].role == SMD_ROLE_REDUCTION_SERVER;
	int ret = smd_contract_environment(pair->reached, pool, index, process, &out->environment);

	if (ret) {
		return ret;
	}
	ret = smd_contract_argv(is_server ? pair->listening : pair->reached, pool, index,
		&out->environment, &out->argv);
	if (ret) {
		smd_environment_free(&out->environment);
	}
	return ret;
}

static void free_process(struct process_strings *strings)
{
	smd_environment_free(&strings->environment);
	smd_argv_free(strings->argv);
	*strings = (struct process_strings){.argv = NULL};
}

static size_t count_words(char *const *argv)
{
	size_t n = 0;

	while (argv && argv[n]) {
		n++;
	}
	return n;
}

/* The length of what begins at text: digits, or what stands before the next ones. */
static size_t run_length(const char *text)
{
	size_t n = 0;

	while (text[n] && !isdigit((unsigned char)text[n]) == !isdigit((unsigned char)*text)) {
		n++;
	}
	return n;
}

/* A number as a program would print it, without zeros before it. */
static int read_number(const char *text, size_t length, int64_t *out)
{
	if (length > DIGITS_MAX || (length > 1 && *text == '0')) {
		return -ENOTSUP;
	}
	*out = strtoll(text, NULL, 10);
	return 0;
}

static int append(struct smd_text *text, const struct smd_text_part *part)
{
	struct smd_text_part *parts =
		realloc(text->parts, (text->count + 1) * sizeof(*text->parts));

	if (!parts) {
		return -ENOMEM;
	}
	text->parts = parts;
	parts[text->count++] = *part;
	return 0;
}

/* Literals that follow each other are one. */
static int append_literal(struct smd_text *text, const char *literal, size_t length)
{
	struct smd_text_part *last = text->count ? &text->parts[text->count - 1] : NULL;
	size_t before = last && last->literal ? strlen(last->literal) : 0;
	char *joined = realloc(before ? last->literal : NULL, before + length + 1);

	if (!joined) {
		return -ENOMEM;
	}
	memcpy(joined + before, literal, length);
	joined[before + length] = '\0';
	if (before) {
		last->literal = joined;
		return 0;
	}
	if (append(text, &(struct smd_text_part){.literal = joined})) {
		free(joined);
		return -ENOMEM;
	}
	return 0;
}

/* Appends the number that the samples have here, at their first digits; samples[BASE] is there,
 * others may be NULL. */
static int append_number(
	struct smd_text *text, const char *const samples[SAMPLES], const size_t lengths[SAMPLES])
{
	struct smd_text_part part = {.literal = NULL};
	int64_t numbers[SAMPLES] = {0};
	int64_t steps[SAMPLES] = {0};

	for (int i = 0; i < SAMPLES; i++) {
		if (samples[i] && read_number(samples[i], lengths[i], &numbers[i])) {
			return -ENOTSUP;
		}
		steps[i] = samples[i] ? numbers[i] - numbers[BASE] : 0;
	}
	part.replica_factor = steps[NEXT_REPLICA];
	part.process_factor = steps[NEXT_PROCESS];
	part.constant = numbers[BASE];
	part.has_port = steps[NEXT_PORT] != 0;
	if (steps[NEXT_PORT] != 0 && steps[NEXT_PORT] != OTHER_PORT) {
		return -ENOTSUP;
	}
	return append(text, &part);
}

/* Whether they all have the same there. */
static int are_equal(const char *const samples[SAMPLES], const size_t lengths[SAMPLES])
{
	for (int i = 1; i < SAMPLES; i++) {
		if (samples[i] && (lengths[i] != lengths[BASE] ||
					  memcmp(samples[i], samples[BASE], lengths[BASE]) != 0)) {
			return 0;
		}
	}
	return 1;
}

static int derive(const char *const given[SAMPLES], struct smd_text *out)
{
	const char *samples[SAMPLES];
	size_t lengths[SAMPLES] = {0};
	int ret = 0;

	memcpy(samples, given, sizeof(samples));
	while (*samples[BASE] && !ret) {
		for (int i = 0; i < SAMPLES; i++) {
			lengths[i] = samples[i] ? run_length(samples[i]) : 0;
		}
		if (are_equal(samples, lengths)) {
			ret = append_literal(out, samples[BASE], lengths[BASE]);
		} else {
			ret = isdigit((unsigned char)*samples[BASE])
				      ? append_number(out, samples, lengths)
				      : -ENOTSUP;
		}
		for (int i = 0; i < SAMPLES; i++) {
			samples[i] = samples[i] ? samples[i] + lengths[i] : NULL;
		}
	}
	for (int i = 0; i < SAMPLES && !ret; i++) {
		ret = samples[i] && *samples[i] ? -ENOTSUP : 0;
	}
	return ret;
}

/* Takes MASTER_PORT out of the constants that contain it. */
static void take_out_port(struct smd_text *text, unsigned port)
{
	for (size_t i = 0; i < text->count; i++) {
		if (text->parts[i].has_port) {
			text->parts[i].constant -= port;
		}
	}
}

static int reads(
	const struct smd_text *text, int index, int process, unsigned port, const char *expected)
{
	char number[32];

	for (size_t i = 0; i < text->count; i++) {
		const struct smd_text_part *part = &text->parts[i];
		const char *here = part->literal ? part->literal : number;

		snprintf(number, sizeof(number), "%" PRId64,
			part->replica_factor * index + part->process_factor * process +
				part->constant + (part->has_port ? (int64_t)port : 0));
		if (strncmp(expected, here, strlen(here)) != 0) {
			return 0;
		}
		expected += strlen(here);
	}
	return *expected == '\0';
}

/* The samples that the texts are derived from; one that is not there is all NULL. */
struct samples {
	struct process_strings strings[SAMPLES];
	int has[SAMPLES];
};

static int read_samples(const struct smd_job *job, const struct smd_placement *placement,
	const struct smd_placement *listening, const struct contract_pair *pair, int pool,
	struct samples *out)
{
	struct smd_placement other = *placement;
	struct contract_pair moved = {NULL, NULL};
	int ret;

	out->has[BASE] = 1;
	out->has[NEXT_REPLICA] = job->pools[pool].replica_count > 1;
	out->has[NEXT_PROCESS] = smd_job_processes(job, pool) > 1;
	out->has[NEXT_PORT] = placement->master_port != 0;
	other.master_port += OTHER_PORT;
	ret = out->has[NEXT_PORT] ? open_pair(job, &other, listening, &moved) : 0;
	for (int i = 0; i < SAMPLES && !ret; i++) {
		if (out->has[i]) {
			ret = read_process(i == NEXT_PORT ? &moved : pair, job, pool,
				i == NEXT_REPLICA, i == NEXT_PROCESS, &out->strings[i]);
			out->has[i] = ret == 0;
		}
	}
	close_pair(&moved);
	return ret;
}

static int complain(const struct smd_job *job, int pool, const char *what, struct smd_error *error)
{
	const struct smd_job_pool *spec = &job->pools[pool];

	return smd_error_set(error, ENOTSUP,
		"workerpool%d: %s: must be the same for its %d replicas of %d processes but for "
		"numbers "
		"that count them and stand apart from other digits; get RANK and the like in the "
		"program itself",
		pool, what, spec->replica_count, smd_job_processes(job, pool));
}

static int derive_variables(const struct smd_job *job, unsigned port, int pool,
	const struct samples *samples, struct smd_pool_texts *out, struct smd_error *error)
{
	const struct smd_environment *base = &samples->strings[BASE].environment;

	out->variables = calloc(base->count + 1, sizeof(*out->variables));
	for (size_t v = 0; out->variables && v < base->count; v++) {
		struct smd_named_text *variable = &out->variables[v];
		const char *values[SAMPLES] = {NULL};
		int ret = 0;

		for (int i = 0; i < SAMPLES; i++) {
			values[i] = samples->has[i]
					    ? smd_environment_get(&samples->strings[i].environment,
						      base->variables[v].name)
					    : NULL;
			ret = samples->has[i] && !values[i] ? -ENOTSUP : ret;
		}
		variable->name = strdup(base->variables[v].name);
		out->nvariables++;
		ret = !variable->name ? -ENOMEM : ret ? ret : derive(values, &variable->text);
		take_out_port(&variable->text, port);
		if (ret) {
			return ret == -ENOTSUP ? complain(job, pool, base->variables[v].name, error)
					       : ret;
		}
	}
	return out->variables ? 0 : -ENOMEM;
}

static int derive_words(const struct smd_job *job, unsigned port, int pool,
	const struct samples *samples, struct smd_pool_texts *out, struct smd_error *error)
{
	char *const *base = samples->strings[BASE].argv;
	size_t count = count_words(base);

	for (int i = 0; i < SAMPLES; i++) {
		if (samples->has[i] && count_words(samples->strings[i].argv) != count) {
			return complain(job, pool, "its command line", error);
		}
	}
	out->words = calloc(count + 1, sizeof(*out->words));
	for (size_t w = 0; out->words && w < count; w++) {
		const char *values[SAMPLES] = {NULL};
		int ret;

		for (int i = 0; i < SAMPLES; i++) {
			values[i] = samples->has[i] ? samples->strings[i].argv[w] : NULL;
		}
		out->nwords++;
		ret = derive(values, &out->words[w]);
		take_out_port(&out->words[w], port);
		if (ret) {
			return ret == -ENOTSUP ? complain(job, pool, base[w], error) : ret;
		}
	}
	return out->words ? 0 : -ENOMEM;
}

static int check_process(const struct smd_job *job, const struct contract_pair *pair, unsigned port,
	int pool, int index, int process, const struct smd_pool_texts *texts,
	struct smd_error *error)
{
	struct process_strings strings = {.argv = NULL};
	int ret = read_process(pair, job, pool, index, process, &strings);

	if (ret) {
		return ret;
	}
	if (strings.environment.count != texts->nvariables ||
		count_words(strings.argv) != texts->nwords) {
		ret = complain(job, pool, "its variables", error);
	}
	for (size_t v = 0; v < texts->nvariables && !ret; v++) {
		const struct smd_named_text *variable = &texts->variables[v];
		const char *value = smd_environment_get(&strings.environment, variable->name);

		if (!value || !reads(&variable->text, index, process, port, value)) {
			ret = complain(job, pool, variable->name, error);
		}
	}
	for (size_t w = 0; w < texts->nwords && !ret; w++) {
		if (!reads(&texts->words[w], index, process, port, strings.argv[w])) {
			ret = complain(job, pool, strings.argv[w], error);
		}
	}
	free_process(&strings);
	return ret;
}

static int check_all(const struct smd_job *job, const struct contract_pair *pair, unsigned port,
	int pool, const struct smd_pool_texts *texts, struct smd_error *error)
{
	int ret = 0;

	for (int i = 0; i < job->pools[pool].replica_count && !ret; i++) {
		for (int p = 0; p < smd_job_processes(job, pool) && !ret; p++) {
			ret = check_process(job, pair, port, pool, i, p, texts, error);
		}
	}
	return ret;
}

int smd_pool_texts_create(const struct smd_job *job, const struct smd_placement *placement,
	const struct smd_placement *listening, int pool, struct smd_pool_texts *out,
	struct smd_error *error)
{
	struct contract_pair pair = {NULL, NULL};
	struct samples samples = {.has = {0}};
	struct smd_pool_texts texts = {NULL};
	unsigned port = placement->master_port;
	int ret = open_pair(job, placement, listening, &pair);

	ret = ret ? ret : read_samples(job, placement, listening, &pair, pool, &samples);
	ret = ret ? ret : derive_variables(job, port, pool, &samples, &texts, error);
	ret = ret ? ret : derive_words(job, port, pool, &samples, &texts, error);
	ret = ret ? ret : check_all(job, &pair, port, pool, &texts, error);
	for (int i = 0; i < SAMPLES; i++) {
		free_process(&samples.strings[i]);
	}
	close_pair(&pair);
	if (ret) {
		smd_error_set(error, -ret, "workerpool%d: %s", pool, strerror(-ret));
		smd_pool_texts_free(&texts);
		return ret;
	}
	*out = texts;
	return 0;
}

int smd_text_is_literal(const struct smd_text *text)
{
	return text->count == 0 || (text->count == 1 && text->parts[0].literal);
}

static void free_text(struct smd_text *text)
{
	for (size_t i = 0; i < text->count; i++) {
		free(text->parts[i].literal);
	}
	free(text->parts);
}

void smd_pool_texts_free(struct smd_pool_texts *texts)
{
	for (size_t i = 0; i < texts->nvariables; i++) {
		free(texts->variables[i].name);
		free_text(&texts->variables[i].text);
	}
	for (size_t i = 0; i < texts->nwords; i++) {
		free_text(&texts->words[i]);
	}
	free(texts->variables);
	free(texts->words);
	*texts = (struct smd_pool_texts){NULL};
}
