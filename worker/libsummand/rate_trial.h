/*
 * Whether operations gained by the rates that were found (measured_rate.h): chunks are cut by these
 * at once, and where messages cost more than bytes, whatever the link carries, operations in small
 * ones take longer. Then the old rates come back, and the next trial is later each time.
 *
 * What was found to be better is doubted later, the other way round: a program that begins is slow,
 * and its first operations, which the others were compared with, may have been. So the old rates
 * are tried once more, and stay if operations gain by them.
 *
 * The fastest operations are compared, of each size to an eighth: a few say enough of a change by
 * four times or more.
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
	unsigned seen; /* operations since times began; on trial they count from the third on */
	int scale;     /* of chunks before it */
	uint64_t since_ns;
	uint64_t pause_ns; /* after the next one that is lost */
	uint64_t took_ns;  /* the last operation, */
	double kept;       /* a factor that has won, and may be doubted; 0: there is none */
	int kept_scale;    /* of chunks before it */
	unsigned kept_for; /* operations */
	bool doubts;       /* the one on trial is that back */
	uint64_t doubt_ns; /* then it is doubted next, */
	uint64_t doubt_pause_ns; /* and so long after that */
};

enum smd_rate_verdict {
	SMD_RATE_NONE, /* nothing is on trial */
	SMD_RATE_OPEN,
	SMD_RATE_LOST, /* what was before shall come back */
	SMD_RATE_WON,
	SMD_RATE_UNDONE, /* a doubt has won: none is to be tried soon, as after one that was lost */
};

/* What was in flight together, `bytes` in all, took `ns`. */
void smd_rate_trial_took(struct smd_rate_trial *trial, uint64_t bytes, uint64_t ns);

/* The table has changed otherwise, or what it carries is looked at anew: times begin again. */
void smd_rate_trial_forget(struct smd_rate_trial *trial);

/* All rates are `factor` times what they were from now on; chunks were of that scale. */
void smd_rate_trial_begin(struct smd_rate_trial *trial, double factor, int scale, uint64_t now_ns);

/* Whether what has won is to be doubted: times of it are known, it has lasted for some operations,
 * and a trial of the old rates takes no more than 2 s. */
bool smd_rate_trial_is_doubted(const struct smd_rate_trial *trial, uint64_t now_ns);

/* All rates are again what they were before that; chunks were of that scale. */
void smd_rate_trial_doubt(struct smd_rate_trial *trial, int scale, uint64_t now_ns);

/* The doubt was lost, and what had won is back. */
void smd_rate_trial_keep(struct smd_rate_trial *trial, uint64_t now_ns);

/* After a verdict, and where there is none for long, the trial is over. */
enum smd_rate_verdict smd_rate_trial_judge(struct smd_rate_trial *trial, uint64_t now_ns);

/* The old rates are back: how long none is tried. */
uint64_t smd_rate_trial_pause(struct smd_rate_trial *trial);

#endif
