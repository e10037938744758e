/*
 * Log lines that a peer can cause, so that none fills the log: a hundred of a kind, then one a
 * second; how many more there were is told every ten seconds.
 *
 * A kind is a place in the code and a class of peers (an address, a job), by a hash of its name:
 * a peer that floods the log silences no others, but those few whose class has the same hash.
 */
#ifndef SMD_BASE_LOG_LIMIT_H
#define SMD_BASE_LOG_LIMIT_H

#include <stdint.h>

#include "reduction_server/base/log.h"

#define SMD_LOG_LIMIT_BURST 100

/* smd_log() for such a line; `class` is a string. From any thread. */
#define smd_log_peer(level, component, class, ...)                                                 \
	do {                                                                                       \
		static struct smd_log_limit smd_log_limit_here;                                    \
		smd_log_limited(&smd_log_limit_here, level, component, class, __VA_ARGS__);        \
	} while (0)

/* Tells what was left out since it was last told. To be called about once a second; `all`: at the
 * end, however short ago that was. */
void smd_log_tell_left_out(uint64_t now_ns, int all);

#define SMD_LOG_LIMIT_CLASSES 16
#define SMD_LOG_LIMIT_SAMPLE  160

/* One place in the code. Zeros at first, and never freed. */
struct smd_log_limit {
	struct smd_log_limit *next; /* of all that have been used */
	int used;
	struct smd_log_bucket {
		uint64_t written; /* lines since `since_ns`, less one for each second */
		uint64_t since_ns;
		uint64_t left_out;
		uint64_t told_ns;
		enum smd_log_level level;
		char component[32];
		char sample[SMD_LOG_LIMIT_SAMPLE]; /* the last one that was left out */
	} buckets[SMD_LOG_LIMIT_CLASSES];
};

void smd_log_limited(struct smd_log_limit *limit, enum smd_log_level level, const char *component,
	const char *class, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
