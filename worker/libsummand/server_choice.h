/*
 * Which servers operations are faster without (specs/design/epochs.md, Rates).
 *
 * Weights have shards finish together, but not one that answers late whatever its share is: a server
 * whose processor another job takes, in spans of which each chunk waits for the next one. A server
 * that less weight has not helped is left out, on the program's own operations, and stays out
 * where these take less. After a while it is tried again, with what should be its share, and stays
 * where operations do not take longer. Each trial that does not keep a server comes later than the
 * one before.
 *
 * Spare servers are without from the first table on: reducers on workers' hosts, beside servers whose
 * interfaces claim to be enough. They are tried together, since one alone gains little, and stay where
 * operations take less.
 *
 * One thread uses it: the owner of the progress engine. Servers are sets of bits, by their numbers.
 * Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_SERVER_CHOICE_H
#define SMD_LIBSUMMAND_SERVER_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/config.h"
#include "worker/libsummand/operation_times.h"

/* When trials of a kind may be, and how long until the next one after one in vain. */
struct smd_server_trials {
	uint64_t next_ns;
	uint64_t pause_ns;
};

struct smd_server_choice {
	uint64_t may_leave;           /* of those there are */
	uint64_t spare;               /* spare ones that no trial has kept yet */
	uint64_t without;             /* servers that nothing is dealt to; */
	uint64_t settled;             /* by the last trial that was won: else one is on; */
	uint64_t wanted;              /* and from the next table on */
	double last[SMD_SERVERS_MAX]; /* what each took for its share when less did not help */
	uint64_t late_ns;             /* when that was of one: 0: of none, or it is judged; */
	unsigned late;                /* and of which one */
	unsigned tried;               /* the last one of those without that was tried again */
	uint64_t trial_ns;            /* when the trial began */
	struct smd_operation_times times;
	struct smd_server_trials leaving;
	struct smd_server_trials returning;
	uint64_t left_ns; /* when one was left out for good, the last time; 0: never */
};

void smd_server_choice_begin(struct smd_server_choice *choice, uint64_t may_leave, uint64_t without,
	uint64_t spare, uint64_t now_ns);

/* Spare ones may have been tried before. */
void smd_server_choice_go_on(struct smd_server_choice *choice, uint64_t now_ns);

/* Less weight has not helped the server, which takes so much of the mean of all for its share. */
void smd_server_choice_saw(
	struct smd_server_choice *choice, unsigned server, double last, uint64_t now_ns);

/* Operations, as of smd_operation_times_took(). Whether that counts. */
bool smd_server_choice_took(struct smd_server_choice *choice, uint64_t bytes, uint64_t ns);

static inline bool smd_server_choice_is_on_trial(const struct smd_server_choice *choice)
{
	return choice->without != choice->settled;
}

/* Whether a trial may begin, or the one that is on is lost, and others of those `there` should be
 * without: choice->wanted. */
bool smd_server_choice_want(struct smd_server_choice *choice, uint64_t there, uint64_t now_ns);

/* Which part of the weight that it had should be right for one that returns from having been out:
 * all of it, where it was out for a trial only. */
double smd_server_choice_part(const struct smd_server_choice *choice, unsigned server);

/* Those that were wanted are without from now on. */
void smd_server_choice_applied(struct smd_server_choice *choice, uint64_t now_ns);

/* What was measured since does not count: something else has changed. */
void smd_server_choice_forget(struct smd_server_choice *choice);

#endif
