/* Notes spans while the job runs, and writes them at its end. */
#include "orchestrator/runner/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/runner/obituary.h"
#include "reduction_server/base/clock.h"

#define KIND_INTERNAL 1 /* of opentelemetry.proto.trace.v1.Span */
#define STATUS_OK     1
#define STATUS_ERROR  2
#define FILE_MODE     0600
#define TIME_SIZE     24
#define ODD           0x9e3779b97f4a7c15u /* spreads the bits of an id */

/* What a phase is a part of; NULL: the job is over. */
static const char *const parts[SMD_PHASE_COUNT] = {
	[SMD_PHASE_ALLOCATING] = "pending",
	[SMD_PHASE_PREPARING] = "pending",
	[SMD_PHASE_RUNNING] = "running",
	[SMD_PHASE_FINISHING] = "running",
	[SMD_PHASE_STOPPING] = "ending",
	[SMD_PHASE_DRAINING] = "ending",
	[SMD_PHASE_RELEASING] = "ending",
	[SMD_PHASE_RESTARTING] = "restarting",
};

static void make_id(char *text, size_t size)
{
	uint8_t bytes[(SMD_TRACE_ID_SIZE - 1) / 2];
	size_t count = (size - 1) / 2;

	if (getrandom(bytes, count, 0) != (ssize_t)count) {
		memset(bytes, 1, count); /* none may be all zero */
	}
	for (size_t i = 0; i < count; i++) {
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	}
}

/* OTLP's JSON has numbers of 64 bits as texts. */
static json_t *time_of(int64_t ns)
{
	char text[TIME_SIZE];

	snprintf(text, sizeof(text), "%" PRId64, ns);
	return json_string(text);
}

static json_t *text_attribute(const char *key, const char *value)
{
	return json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value ? value : "");
}

static json_t *number_attribute(const char *key, int64_t value)
{
	return json_pack("{s:s, s:{s:o}}", "key", key, "value", "intValue", time_of(value));
}

/* "2026-01-31T12:00:00.000000000Z" in ns since 1970; 0: it is none. */
static int64_t parse_time(const char *text)
{
	struct tm day = {.tm_isdst = 0};
	long ns = 0;

	if (sscanf(text, "%d-%d-%dT%d:%d:%d.%9ld", &day.tm_year, &day.tm_mon, &day.tm_mday,
		    &day.tm_hour, &day.tm_min, &day.tm_sec, &ns) < 6) {
		return 0;
	}
	day.tm_year -= 1900;
	day.tm_mon -= 1;
	return (int64_t)timegm(&day) * (int64_t)SMD_SECOND_NS + ns;
}

/* Takes over the attributes. `error`: why it failed; NULL: it did not. */
static void add_span(struct smd_trace *trace, const char *id, const char *name, int64_t from,
	int64_t to, json_t *attributes, const char *error)
{
	char own[SMD_SPAN_ID_SIZE];
	json_t *span;

	if (json_array_size(trace->spans) >= SMD_TRACE_SPANS_MAX && !id) {
		trace->ndropped++;
		json_decref(attributes);
		return;
	}
	make_id(own, sizeof(own));
	span = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:{s:i}}", "traceId", trace->family.id,
		"spanId", id ? id : own, "name", name, "kind", KIND_INTERNAL, "startTimeUnixNano",
		time_of(from), "endTimeUnixNano", time_of(to < from ? from : to), "attributes",
		attributes, "status", "code", error ? STATUS_ERROR : STATUS_OK);
	if (span && (!id || trace->family.is_of_trial)) {
		json_object_set_new(span, "parentSpanId",
			json_string(id ? trace->family.root : trace->own));
	}
	if (span && error) {
		json_object_set_new(
			json_object_get(span, "status"), "message", json_string(error));
	}
	json_array_append_new(trace->spans, span);
}

static int64_t day_time(const struct smd_trace *trace, uint64_t ns)
{
	return (int64_t)ns + trace->offset_ns;
}

/* ---- what happens ---- */

void smd_trace_take_phase(struct smd_trace *trace, const struct smd_job_status *status)
{
	const char *part = parts[status->phase];
	uint64_t now = part ? smd_clock_ns() : status->ended_ns;

	if (!trace->path || (part && trace->part && strcmp(part, trace->part) == 0)) {
		return;
	}
	if (trace->part) {
		add_span(trace, NULL, trace->part, day_time(trace, trace->part_ns),
			day_time(trace, now),
			json_pack("[o]", number_attribute("summand.attempt", status->restarts)),
			NULL);
	}
	trace->part = part;
	trace->part_ns = now;
}

void smd_trace_take_end(struct smd_trace *trace, const struct smd_job_status *status,
	const struct smd_replica *replica)
{
	char sentence[SMD_OBITUARY_SIZE];
	int is_failure = replica->state == SMD_REPLICA_FAILED;

	if (!trace->path || replica->started_ns == 0) {
		return;
	}
	smd_obituary_sentence(replica, sentence);
	add_span(trace, NULL, replica->name, day_time(trace, replica->started_ns),
		day_time(trace, replica->ended_ns),
		json_pack("[o, o, o, o]", text_attribute("summand.replica", replica->name),
			text_attribute("summand.role", smd_role_name(replica->role)),
			text_attribute("summand.state", smd_replica_state_name(replica->state)),
			number_attribute("summand.restarts",
				smd_job_status_restarts_of(status, replica))),
		is_failure ? sentence : NULL);
}

/* ---- beginning and end ---- */

/* Ids are random already; the second half of a trace's must not look like another job's. */
void smd_trace_family_of(struct smd_trace_family *family, int64_t job)
{
	uint64_t id = (uint64_t)job;

	*family = (struct smd_trace_family){.is_of_trial = 0};
	snprintf(family->id, sizeof(family->id), "%016" PRIx64 "%016" PRIx64, id * ODD, id);
	snprintf(family->root, sizeof(family->root), "%016" PRIx64, id);
}

int smd_trace_open(struct smd_trace *trace, const char *path,
	const struct smd_trace_family *family, struct smd_error *error)
{
	struct timespec now;
	int fd = open(path,
		O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (family ? O_APPEND : O_TRUNC),
		FILE_MODE);

	if (fd < 0) {
		return smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	close(fd);
	clock_gettime(CLOCK_REALTIME, &now);
	*trace = (struct smd_trace){.path = path,
		.spans = json_array(),
		.offset_ns = (int64_t)now.tv_sec * (int64_t)SMD_SECOND_NS + now.tv_nsec - (int64_t)smd_clock_ns()};
	if (family) {
		trace->family = *family;
	} else {
		make_id(trace->family.id, sizeof(trace->family.id));
		make_id(trace->family.root, sizeof(trace->family.root));
	}
	if (trace->family.is_of_trial) {
		make_id(trace->own, sizeof(trace->own));
	} else {
		memcpy(trace->own, trace->family.root, sizeof(trace->own));
	}
	return 0;
}

static void add_job(struct smd_trace *trace, const struct smd_trace_job *job)
{
	int64_t begun = day_time(trace, job->started_ns);
	int64_t ended = day_time(trace, job->ended_ns);
	int64_t queued = parse_time(job->queue_time);
	int64_t created = parse_time(job->create_time);

	queued = queued && queued < begun ? queued : begun;
	created = created && created < queued ? created : queued;
	if (!trace->family.is_of_trial) {
		add_span(trace, NULL, "queued", queued, begun, json_array(), NULL);
	}
	if (job->waits_again) {
		add_span(trace, NULL, "preempted", ended, ended, json_array(), NULL);
		return;
	}
	add_span(trace, trace->own, job->span, created, ended,
		json_pack("[o, o, o]", text_attribute("summand.state", job->state),
			number_attribute("summand.restarts", job->restarts),
			number_attribute("summand.dropped_spans", trace->ndropped)),
		job->failure);
}

static json_t *document_of(struct smd_trace *trace, const struct smd_trace_job *job)
{
	return json_pack("{s:[{s:{s:[o, o, o]}, s:[{s:{s:s, s:s}, s:O}]}]}", "resourceSpans",
		"resource", "attributes", text_attribute("service.name", "summand"),
		text_attribute("summand.job", job->name ? job->name : ""),
		text_attribute("summand.display_name", job->display_name), "scopeSpans", "scope",
		"name", "summand", "version", SUMMAND_VERSION, "spans", trace->spans);
}

/* One line, as OpenTelemetry's files have them, at once: others may add theirs. */
static int add_line(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, FILE_MODE);
	size_t length = strlen(text);
	int ret = 0;

	if (fd < 0) {
		return -errno;
	}
	while (!ret && length > 0) {
		ssize_t count = write(fd, text, length);

		ret = count < 0 && errno != EINTR ? -errno : 0;
		text += count > 0 ? count : 0;
		length -= count > 0 ? (size_t)count : 0;
	}
	return close(fd) && !ret ? -errno : ret;
}

int smd_trace_close(struct smd_trace *trace, const struct smd_trace_job *job)
{
	json_t *document;
	char *text, *line = NULL;
	int ret;

	if (!trace->path) {
		return 0;
	}
	add_job(trace, job);
	document = document_of(trace, job);
	text = document ? json_dumps(document, JSON_COMPACT) : NULL;
	ret = text && asprintf(&line, "%s\n", text) >= 0 ? add_line(trace->path, line) : -ENOMEM;
	free(line);
	free(text);
	json_decref(document);
	json_decref(trace->spans);
	trace->path = NULL;
	return ret;
}
