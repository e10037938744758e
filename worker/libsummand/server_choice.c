/* Leaves out a server that is late whatever it gets, where operations gain by that. */
#include "worker/libsummand/server_choice.h"

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define LATE          1.15 /* more than shards scatter by that weights have settled */
#define LATE_NS       (60 * SMD_SECOND_NS) /* how long that says something, where operations are long */
#define FASTER        0.95                 /* a server is left out for good, */
#define NOT_SLOWER    1.03 /* or stays: what it carries is somebody's spare time */
#define LONGEST_NS    (60 * SMD_SECOND_NS) /* operations of other sizes may come meanwhile */
#define SPARE_NS      (SMD_SECOND_NS / 2)  /* until spare ones are tried first */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

void smd_server_choice_begin(struct smd_server_choice *choice, uint64_t may_leave, uint64_t without,
	uint64_t spare, uint64_t now_ns)
{
	*choice = (struct smd_server_choice){
		.may_leave = may_leave,
		.spare = spare,
		.without = without,
		.settled = without,
		.wanted = without,
		.leaving = {now_ns, PAUSE_NS},
		.returning = {now_ns + (spare ? SPARE_NS : PAUSE_NS), PAUSE_NS},
	};
}

void smd_server_choice_go_on(struct smd_server_choice *choice, uint64_t now_ns)
{
	choice->returning.next_ns = now_ns + PAUSE_NS;
}

void smd_server_choice_saw(
	struct smd_server_choice *choice, unsigned server, double last, uint64_t now_ns)
{
	if (last >= LATE && choice->may_leave >> server & 1) {
		choice->late = server;
		choice->late_ns = now_ns;
		choice->last[server] = last;
	}
}

bool smd_server_choice_took(struct smd_server_choice *choice, uint64_t bytes, uint64_t ns)
{
	return smd_operation_times_took(&choice->times, bytes, ns);
}

static void put_off(struct smd_server_trials *trials, uint64_t now_ns)
{
	trials->next_ns = now_ns + smd_backoff_next(&trials->pause_ns, PAUSE_MOST_NS);
}

/* One that has been good for long is tried again as soon as the first time. */
static void leave_out(struct smd_server_choice *choice, uint64_t now_ns)
{
	if (choice->left_ns && now_ns - choice->left_ns > 2 * PAUSE_MOST_NS) {
		choice->returning.pause_ns = PAUSE_NS;
	}
	choice->left_ns = now_ns;
	put_off(&choice->returning, now_ns);
}

static void keep(struct smd_server_choice *choice, bool leaves, uint64_t now_ns)
{
	choice->settled = choice->without;
	choice->spare &= choice->without;
	if (leaves) {
		leave_out(choice, now_ns);
	}
}

static bool judge(struct smd_server_choice *choice, uint64_t now_ns)
{
	bool leaves = choice->without & ~choice->settled;
	bool must_gain = leaves || (choice->spare & choice->settled & ~choice->without);
	double ratio = smd_operation_times_ratio(&choice->times, SMD_TIMES_MEDIAN, true);

	if (ratio <= 0 && !smd_operation_times_have_lost(&choice->times) &&
		now_ns - choice->trial_ns < LONGEST_NS) {
		return false;
	}
	if (ratio > 0 && ratio <= (must_gain ? FASTER : NOT_SLOWER)) {
		keep(choice, leaves, now_ns);
		return false;
	}
	if (choice->wanted != choice->settled) { /* else that was refused, and is asked for again */
		choice->wanted = choice->settled;
		put_off(leaves ? &choice->leaving : &choice->returning, now_ns);
	}
	return true;
}

/* Of those without they take turns; all spare ones have that of the first. */
static uint64_t next_without(const struct smd_server_choice *choice)
{
	uint64_t spare = choice->spare & choice->settled;
	uint64_t turns = (choice->settled & ~spare) | (spare & -spare);
	unsigned server = choice->tried;

	do {
		server = (server + 1) % SMD_SERVERS_MAX;
	} while (!(turns >> server & 1));
	return spare >> server & 1 ? spare : 1ull << server;
}

static bool may_leave(const struct smd_server_choice *choice, uint64_t there, uint64_t now_ns)
{
	uint64_t others = there & ~choice->settled & ~(1ull << choice->late);

	return choice->late_ns && now_ns - choice->late_ns < LATE_NS && others &&
	       now_ns >= choice->leaving.next_ns;
}

bool smd_server_choice_want(struct smd_server_choice *choice, uint64_t there, uint64_t now_ns)
{
	uint64_t wanted = choice->settled;

	if (smd_server_choice_is_on_trial(choice)) {
		return judge(choice, now_ns);
	}
	if (may_leave(choice, there, now_ns)) {
		wanted |= 1ull << choice->late;
	} else if (choice->settled && now_ns >= choice->returning.next_ns) {
		wanted &= ~next_without(choice);
	}
	if (wanted == choice->settled || !smd_operation_times_settle(&choice->times)) {
		return false;
	}
	choice->wanted = wanted;
	return true;
}

double smd_server_choice_part(const struct smd_server_choice *choice, unsigned server)
{
	double last = choice->last[server];

	return choice->settled >> server & 1 && last > 1 ? 1 / last : 1;
}

void smd_server_choice_applied(struct smd_server_choice *choice, uint64_t now_ns)
{
	uint64_t returns = choice->settled & ~choice->wanted;

	if (returns) {
		choice->tried = (unsigned)__builtin_ctzll(returns);
	}
	choice->without = choice->wanted;
	choice->late_ns = 0;
	choice->trial_ns = now_ns;
	smd_server_choice_forget(choice);
}

void smd_server_choice_forget(struct smd_server_choice *choice)
{
	smd_operation_times_forget(&choice->times);
}
