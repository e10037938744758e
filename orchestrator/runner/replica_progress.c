/* Takes what replicas say of their progress, and computes rate and end from it. */
#include "orchestrator/runner/replica_progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reduction_server/base/clock.h"

#define SPAN_NS   (60 * SMD_SECOND_NS)
#define APART_NS  (SPAN_NS / SMD_REPLICA_PROGRESS_SAMPLES)
#define MOST      1e15
#define DISTANT_S (10.0 * 365 * 86400) /* an end that is later is none */
#define TIME_SIZE 64

/* A number from 0 on, which ends at a blank or the text's end. */
static int take_number(const char **text, double *out)
{
	char *end;
	double number = strtod(*text, &end);

	if (end == *text || (*end && *end != ' ') || !isfinite(number) || number < 0 ||
		number > MOST) {
		return -EINVAL;
	}
	*text = end + strspn(end, " ");
	*out = number;
	return 0;
}

static void forget_first(struct smd_replica_progress *progress)
{
	memmove(&progress->samples[0], &progress->samples[1],
		(progress->count - 1) * sizeof(progress->samples[0]));
	progress->count--;
}

static void keep_sample(struct smd_replica_progress *progress, uint64_t now_ns)
{
	if (progress->count > 0 && now_ns - progress->samples[progress->count - 1].ns < APART_NS) {
		return;
	}
	while (progress->count > 1 && (progress->count == SMD_REPLICA_PROGRESS_SAMPLES ||
					      now_ns - progress->samples[1].ns > SPAN_NS)) {
		forget_first(progress);
	}
	progress->samples[progress->count].ns = now_ns;
	progress->samples[progress->count].done = progress->done;
	progress->count++;
}

int smd_replica_progress_take(
	struct smd_replica_progress *progress, const char *text, uint64_t now_ns)
{
	double done;
	double total = 0;

	if (take_number(&text, &done) || (*text && take_number(&text, &total)) ||
		strlen(text) >= SMD_REPLICA_PROGRESS_UNIT_SIZE || (total > 0 && done > total)) {
		return -EINVAL;
	}
	if (done < progress->done) {
		smd_replica_progress_clear(progress);
	}
	progress->is_there = 1;
	progress->done = done;
	progress->total = total;
	progress->last_ns = now_ns;
	strcpy(progress->unit, text);
	keep_sample(progress, now_ns);
	return 0;
}

void smd_replica_progress_clear(struct smd_replica_progress *progress)
{
	*progress = (struct smd_replica_progress){.is_there = 0};
}

double smd_replica_progress_rate(const struct smd_replica_progress *progress)
{
	const uint64_t since_ns = progress->count > 0 ? progress->samples[0].ns : progress->last_ns;

	return progress->last_ns > since_ns
		       ? (progress->done - progress->samples[0].done) /
				 ((double)(progress->last_ns - since_ns) / (double)SMD_SECOND_NS)
		       : 0;
}

double smd_replica_progress_rest(const struct smd_replica_progress *progress)
{
	double rate = smd_replica_progress_rate(progress);

	if (progress->total > 0 && progress->done >= progress->total) {
		return 0;
	}
	return progress->total > 0 && rate > 0 ? (progress->total - progress->done) / rate : -1;
}

int smd_replica_progress_is_behind(
	const struct smd_replica_progress *a, const struct smd_replica_progress *b)
{
	return a->total > 0 && b->total > 0 ? a->done / a->total < b->done / b->total
					    : a->done < b->done;
}

static void set_end(json_t *record, const struct smd_replica_progress *progress)
{
	double rest = smd_replica_progress_rest(progress);
	double since = (double)(smd_clock_ns() - progress->last_ns) / (double)SMD_SECOND_NS;
	time_t end = time(NULL) + (time_t)(rest - since);
	struct tm parts;
	char text[TIME_SIZE];

	if (rest > 0 && rest < DISTANT_S && gmtime_r(&end, &parts)) {
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
		json_object_set_new(record, "estimatedEndTime", json_string(text));
	}
}

json_t *smd_replica_progress_record(const struct smd_replica_progress *progress)
{
	json_t *record = json_pack("{s:f}", "done", progress->done);
	double rate = smd_replica_progress_rate(progress);

	if (progress->total > 0) {
		json_object_set_new(record, "total", json_real(progress->total));
	}
	if (*progress->unit) {
		json_object_set_new(record, "unit", json_string(progress->unit));
	}
	if (rate > 0) {
		json_object_set_new(record, "rate", json_real(rate));
	}
	set_end(record, progress);
	return record;
}
