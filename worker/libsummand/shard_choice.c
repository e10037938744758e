/* Tries servers with one shard where that can carry what they do, and keeps what is not slower. */
#include "worker/libsummand/shard_choice.h"

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define SHARD_MBPS    10000.0 /* one carries as much: what servers start one more for, */
#define SURELY        0.25    /* or this part of it at least, on any processor; */
#define AT_ONCE       0.125   /* for no more than this, without a trial */
#define GREW          2.0  /* a rate that changes by so much since a trial was won is another one */
#define NOT_SLOWER    1.03 /* one shard alone is kept: it saves a third of the processor time */
#define FASTER        0.97 /* all of them are */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

void smd_shard_choice_begin(
	struct smd_shard_choice *choice, uint64_t several, uint64_t single, uint64_t now_ns)
{
	*choice = (struct smd_shard_choice){
		.several = several,
		.single = single,
		.settled = single,
		.wanted = single,
		.next_ns = now_ns,
		.pause_ns = PAUSE_NS,
	};
}

void smd_shard_choice_found(struct smd_shard_choice *choice, unsigned server, double mbps)
{
	choice->mbps[server] = mbps;
	if (choice->won[server] <= 0 && choice->settled >> server & 1) {
		choice->won[server] = mbps; /* the trial was of a table before */
	}
}

uint64_t smd_shard_choice_sure(const struct smd_shard_choice *choice)
{
	uint64_t sure = 0;

	for (unsigned server = 0; server < SMD_SERVERS_MAX; server++) {
		double mbps = choice->mbps[server];

		sure |= (uint64_t)(mbps > 0 && mbps <= SHARD_MBPS * AT_ONCE) << server;
	}
	return choice->doubted ? 0 : sure & choice->several & ~choice->single;
}

void smd_shard_choice_take(struct smd_shard_choice *choice, uint64_t servers, bool alone)
{
	for (unsigned server = 0; server < SMD_SERVERS_MAX; server++) {
		if (servers >> server & 1) {
			choice->won[server] = alone ? choice->mbps[server] : 0;
		}
	}
	choice->doubted |= !alone;
	choice->single = alone ? choice->single | servers : choice->single & ~servers;
	choice->settled = choice->single;
	choice->wanted = choice->single;
	smd_shard_choice_forget(choice);
}

bool smd_shard_choice_took(struct smd_shard_choice *choice, uint64_t bytes, uint64_t ns)
{
	return smd_operation_times_took(&choice->times, bytes, ns);
}

static bool one_should_do(const struct smd_shard_choice *choice, unsigned server)
{
	double mbps = choice->mbps[server];
	double won = choice->won[server];

	if (mbps <= 0 || mbps > SHARD_MBPS) {
		return mbps <= 0 && choice->settled >> server & 1;
	}
	if (choice->settled >> server & 1) {
		return mbps <= SHARD_MBPS * SURELY || mbps <= GREW * won;
	}
	return won <= 0 || GREW * mbps <= won;
}

static uint64_t find_single(const struct smd_shard_choice *choice)
{
	uint64_t single = 0;

	for (unsigned server = 0; server < SMD_SERVERS_MAX; server++) {
		if (choice->several >> server & 1 && one_should_do(choice, server)) {
			single |= 1ull << server;
		}
	}
	return single;
}

/* Shards that are used again must make up for what they cost: their median beats the fast ones. */
static bool has_won(const struct smd_shard_choice *choice)
{
	bool more = choice->settled & ~choice->single;
	double ratio = smd_operation_times_ratio(&choice->times, SMD_TIMES_MEDIAN, !more);

	return ratio > 0 && ratio <= (more ? FASTER : NOT_SLOWER);
}

static void keep(struct smd_shard_choice *choice)
{
	uint64_t changed = choice->settled ^ choice->single;

	for (unsigned server = 0; server < SMD_SERVERS_MAX; server++) {
		if (changed >> server & 1) {
			choice->won[server] = choice->mbps[server];
		}
	}
	choice->settled = choice->single;
	choice->pause_ns = PAUSE_NS;
}

static bool judge(struct smd_shard_choice *choice, uint64_t now_ns)
{
	bool lost = smd_operation_times_have_lost(&choice->times);

	if (!lost && smd_operation_times_ratio(&choice->times, SMD_TIMES_MEDIAN, true) <= 0) {
		return false;
	}
	if (has_won(choice)) {
		keep(choice);
		return false;
	}
	choice->doubted |= (choice->single & ~choice->settled) != 0;
	choice->wanted = choice->settled;
	choice->next_ns = now_ns + smd_backoff_next(&choice->pause_ns, PAUSE_MOST_NS);
	return true;
}

bool smd_shard_choice_want(struct smd_shard_choice *choice, uint64_t now_ns)
{
	uint64_t single;

	if (smd_shard_choice_is_on_trial(choice)) {
		return judge(choice, now_ns);
	}
	single = find_single(choice);
	if (single != choice->wanted) { /* by new rates: old times may be of other ones */
		choice->wanted = single;
		smd_shard_choice_forget(choice);
	}
	return smd_shard_choice_is_due(choice, now_ns) &&
	       smd_operation_times_settle(&choice->times);
}

void smd_shard_choice_applied(struct smd_shard_choice *choice)
{
	choice->single = choice->wanted;
	smd_shard_choice_forget(choice);
}

void smd_shard_choice_forget(struct smd_shard_choice *choice)
{
	smd_operation_times_forget(&choice->times);
}
