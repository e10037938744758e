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
#define GAIN          0.9 /* by which a doubt is won */
#define SMALLER       0.5 /* a factor that is doubted: what is too large costs little */
#define DOUBT_NS      (2 * SMD_SECOND_NS)
#define DOUBT_TIMES   32u                 /* operations before it, of which a trial takes eight, */
#define DOUBT_MOST_NS (SMD_SECOND_NS / 4) /* each of at most so long */
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

	if (size >= SMD_RATE_TRIAL_SIZES) {
		return;
	}
	trial->took_ns = ns;
	trial->kept_for += trial->factor == 0;
	if (trial->seen++ < SKIPPED && trial->factor != 0) {
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

bool smd_rate_trial_is_doubted(const struct smd_rate_trial *trial, uint64_t now_ns)
{
	return trial->kept > 0 && trial->factor == 0 && now_ns >= trial->doubt_ns &&
	       trial->seen >= SKIPPED + ENOUGH && trial->kept_for >= DOUBT_TIMES &&
	       trial->took_ns <= DOUBT_MOST_NS;
}

void smd_rate_trial_doubt(struct smd_rate_trial *trial, int scale, uint64_t now_ns)
{
	smd_rate_trial_begin(trial, 1 / trial->kept, scale, now_ns);
	trial->doubts = true;
}

void smd_rate_trial_keep(struct smd_rate_trial *trial, uint64_t now_ns)
{
	trial->factor = 0;
	trial->kept_for = 0;
	trial->pause_ns = 0;
	trial->doubts = false;
	trial->doubt_ns = now_ns + smd_backoff_next(&trial->doubt_pause_ns, PAUSE_MOST_NS);
	smd_rate_trial_forget(trial);
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
	if (trial->doubts) {
		return ratio(trial) > 0 && ratio(trial) <= GAIN ? SMD_RATE_UNDONE : SMD_RATE_LOST;
	}
	if (ratio(trial) > SLOWER) {
		return SMD_RATE_LOST;
	}
	trial->kept = trial->factor < SMALLER ? trial->factor : 0;
	trial->kept_scale = trial->scale;
	trial->kept_for = 0;
	trial->doubt_ns = now_ns + DOUBT_NS;
	trial->doubt_pause_ns = 2 * DOUBT_NS;
	trial->factor = 0;
	trial->pause_ns = trial->kept > 0 ? trial->pause_ns : 0; /* a doubt may undo it */
	return SMD_RATE_WON;
}

uint64_t smd_rate_trial_pause(struct smd_rate_trial *trial)
{
	trial->factor = 0;
	trial->kept = 0;
	trial->doubts = false;
	trial->pause_ns = trial->pause_ns ? trial->pause_ns : PAUSE_NS;
	smd_rate_trial_forget(trial);
	return smd_backoff_next(&trial->pause_ns, PAUSE_MOST_NS);
}
