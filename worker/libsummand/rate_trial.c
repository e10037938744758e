/* Compares the fastest operations before rates were found with the fastest since. */
#include "worker/libsummand/rate_trial.h"

#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define SKIPPED       2u   /* on trial: streams are being joined, and links have rested */
#define ENOUGH        6u   /* operations for a verdict, besides */
#define SLOWER        1.25 /* more than times scatter, and less than a wrong rate costs */
#define LONG_NS       (5 * SMD_SECOND_NS)  /* enough time for a verdict on fewer, if on any, */
#define LONGEST_NS    (60 * SMD_SECOND_NS) /* and without one */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

/* SMD_RATE_TRIAL_SIZES or more: no size that counts. */
static unsigned size_of(uint64_t bytes)
{
	unsigned log2 = bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;

	return log2 < 3 ? SMD_RATE_TRIAL_SIZES : 8 * log2 + (unsigned)(bytes >> (log2 - 3) & 7);
}

void smd_rate_trial_took(struct smd_rate_trial *trial, uint64_t bytes, uint64_t ns)
{
	unsigned size = size_of(bytes);
	double each;

	if (size >= SMD_RATE_TRIAL_SIZES || (trial->factor != 0 && trial->seen++ < SKIPPED)) {
		return;
	}
	each = (double)ns / (double)bytes;
	if (trial->now[size] == 0 || each < trial->now[size]) {
		trial->now[size] = each;
	}
}

void smd_rate_trial_forget(struct smd_rate_trial *trial)
{
	memset(trial->now, 0, sizeof(trial->now));
	trial->seen = 0;
}

void smd_rate_trial_begin(struct smd_rate_trial *trial, double factor, int scale, uint64_t now_ns)
{
	memcpy(trial->before, trial->now, sizeof(trial->before));
	smd_rate_trial_forget(trial);
	trial->factor = factor;
	trial->scale = scale;
	trial->since_ns = now_ns;
}

/* What operations take now to what they took, where a size counts by the time that it takes; 0: no size was seen twice. */
static double ratio(const struct smd_rate_trial *trial)
{
	double now = 0;
	double then = 0;

	for (unsigned i = 0; i < SMD_RATE_TRIAL_SIZES; i++) {
		double weight = (double)(1ull << i / 8);

		if (trial->before[i] > 0 && trial->now[i] > 0) {
			now += trial->now[i] / trial->before[i] * weight;
			then += weight;
		}
	}
	return then > 0 ? now / then : 0;
}

enum smd_rate_verdict smd_rate_trial_judge(struct smd_rate_trial *trial, uint64_t now_ns)
{
	if (trial->factor == 0) {
		return SMD_RATE_NONE;
	}
	if (trial->seen < SKIPPED + ENOUGH &&
		now_ns - trial->since_ns < (ratio(trial) > 0 ? LONG_NS : LONGEST_NS)) {
		return SMD_RATE_OPEN;
	}
	if (ratio(trial) > SLOWER) {
		return SMD_RATE_LOST;
	}
	trial->factor = 0;
	trial->pause_ns = 0;
	return SMD_RATE_WON;
}

uint64_t smd_rate_trial_pause(struct smd_rate_trial *trial)
{
	trial->factor = 0;
	trial->pause_ns = trial->pause_ns ? trial->pause_ns : PAUSE_NS;
	smd_rate_trial_forget(trial);
	return smd_backoff_next(&trial->pause_ns, PAUSE_MOST_NS);
}
