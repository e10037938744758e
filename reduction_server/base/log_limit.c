/* Counts the log lines of each kind, and leaves out those that are too many. */
#include "reduction_server/base/log_limit.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/hash.h"

#define TELL_NS (10 * SMD_SECOND_NS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct smd_log_limit *all_limits;

/* "12,345" */
static const char *print_count(uint64_t count, char out[32])
{
	char *at = out + 31;

	*at = '\0';
	for (unsigned digits = 0; count || digits == 0; count /= 10, digits++) {
		if (digits && digits % 3 == 0) {
			*--at = ',';
		}
		*--at = (char)('0' + count % 10);
	}
	return at;
}

static int bucket_allows(struct smd_log_bucket *bucket, uint64_t now_ns)
{
	uint64_t seconds = (now_ns - bucket->since_ns) / SMD_SECOND_NS;

	if (seconds >= bucket->written) {
		bucket->written = 0;
		bucket->since_ns = now_ns;
	} else {
		bucket->written -= seconds;
		bucket->since_ns += seconds * SMD_SECOND_NS;
	}
	if (bucket->written >= SMD_LOG_LIMIT_BURST) {
		return 0;
	}
	bucket->written++;
	return 1;
}

static void bucket_leave_out(struct smd_log_bucket *bucket, enum smd_log_level level,
	const char *component, const char *sentence, uint64_t now_ns)
{
	if (bucket->left_out++ == 0) {
		bucket->told_ns = now_ns;
	}
	bucket->level = level;
	snprintf(bucket->component, sizeof(bucket->component), "%.31s", component);
	memcpy(bucket->sample, sentence, sizeof(bucket->sample));
}

void smd_log_limited(struct smd_log_limit *limit, enum smd_log_level level, const char *component,
	const char *class, const char *format, ...)
{
	size_t index = smd_hash(SMD_HASH_SEED, class, strlen(class)) % SMD_LOG_LIMIT_CLASSES;
	uint64_t now_ns = smd_clock_ns();
	char sentence[1024];
	va_list args;
	int allowed;

	if (!smd_log_enabled(level)) {
		return;
	}
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	if (!limit->used) {
		limit->used = 1;
		limit->next = all_limits;
		all_limits = limit;
	}
	allowed = bucket_allows(&limit->buckets[index], now_ns);
	if (!allowed) {
		char sample[SMD_LOG_LIMIT_SAMPLE];

		snprintf(sample, sizeof(sample), "%.*s", SMD_LOG_LIMIT_SAMPLE - 1, sentence);
		bucket_leave_out(&limit->buckets[index], level, component, sample, now_ns);
	}
	pthread_mutex_unlock(&lock);
	if (allowed) {
		smd_log(level, component, "%s", sentence);
	}
}

static void bucket_tell(struct smd_log_bucket *bucket, uint64_t now_ns, int all)
{
	char number[32];

	if (bucket->left_out && (all || now_ns - bucket->told_ns >= TELL_NS)) {
		smd_log(bucket->level, bucket->component, "... and %s more like this: %s",
			print_count(bucket->left_out, number), bucket->sample);
		bucket->left_out = 0;
	}
}

void smd_log_tell_left_out(uint64_t now_ns, int all)
{
	pthread_mutex_lock(&lock);
	for (struct smd_log_limit *limit = all_limits; limit; limit = limit->next) {
		for (size_t i = 0; i < SMD_LOG_LIMIT_CLASSES; i++) {
			bucket_tell(&limit->buckets[i], now_ns, all);
		}
	}
	pthread_mutex_unlock(&lock);
}
