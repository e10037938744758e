/*
 * Whether operations gained by the rates that were found (measured_rate.h): chunks are cut by these
 * at once, and where messages cost more than bytes, whatever the link carries, operations in small
 * ones take longer. Then the old rates come back, and the next trial is later each time.
 *
 * The fastest operations are compared, of each size to an eighth: a few say enough of a change by four times or more.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_RATE_TRIAL_H
#define SMD_LIBSUMMAND_RATE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define SMD_RATE_TRIAL_SIZES (48u * 8u) /* eighths of powers of two of bytes */

struct smd_rate_trial {
	double before[SMD_RATE_TRIAL_SIZES]; /* ns that a byte of the fastest took; 0: none was seen */
	double now[SMD_RATE_TRIAL_SIZES];
	double factor; /* of all rates that is on trial; 0: none is */
	unsigned seen; /* operations on trial, that count from the third on */
	int scale;     /* of chunks before it */
	uint64_t since_ns;
	uint64_t pause_ns; /* after the next one that is lost */
};

enum smd_rate_verdict {
	SMD_RATE_NONE,  /* nothing is on trial */
	SMD_RATE_OPEN,
	SMD_RATE_LOST,
	SMD_RATE_WON,
};

/* What was in flight together, `bytes` in all, took `ns`. */
void smd_rate_trial_took(struct smd_rate_trial *trial, uint64_t bytes, uint64_t ns);

/* The table has changed otherwise, or what it carries is looked at anew: times begin again. */
void smd_rate_trial_forget(struct smd_rate_trial *trial);

/* All rates are `factor` times what they were from now on; chunks were of that scale. */
void smd_rate_trial_begin(struct smd_rate_trial *trial, double factor, int scale, uint64_t now_ns);

/* After a verdict, and where there is none for long, the trial is over. */
enum smd_rate_verdict smd_rate_trial_judge(struct smd_rate_trial *trial, uint64_t now_ns);

/* The old rates are back: how long none is tried. */
uint64_t smd_rate_trial_pause(struct smd_rate_trial *trial);

#endif
