/* Feeds what rank 0 sees to rate, balance, choices and search, and lets one of them have its way.
 */
#include "worker/libsummand/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/pressure.h"
#include "worker/libsummand/tuning_exchanges.h"
#include "worker/libsummand/tuning_table.h"

#define SLICE_CHUNKS 8u        /* fewer at once say little of a shard, */
#define SLICE_NS     20000000u /* unless they took so long, together with those before */
#define LOOK_NS      100000000u
#define DOUBT_TABLES 8u   /* are left for others */
#define IDLE         8u   /* operations that a trial of exchanges could not count: nothing waits */
#define IDLE_NS      (SMD_SECOND_NS / 10) /* or so much time with such */
#define USUAL_TIMES  16u  /* a size that comes no more is not the usual one after some of these */
#define PART_UNKNOWN 0.25 /* of the mean, for a server that another table has left out */

/* Which servers have several shards there on one link, which of these use one alone, and which ones
 * have none in use: these will have one at first. */
static void begin_choices(struct smd_tuning *tuning, uint64_t now_ns)
{
	unsigned there[SMD_SERVERS_MAX] = {0};
	unsigned used[SMD_SERVERS_MAX] = {0};
	uint64_t several = 0;
	uint64_t single = 0;
	uint64_t without = 0;
	uint64_t may_leave = 0;
	uint64_t spare = 0;
	uint64_t apart = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		tuning->parts[s] = there[tuning->shards[s].server]++ ? 0 : PART_UNKNOWN;
		spare |= (uint64_t)(tuning->shards[s].spare != 0) << tuning->shards[s].server;
		used[tuning->shards[s].server] += tuning->shards[s].weight != 0;
		may_leave |= (uint64_t)tuning->shards[s].may_leave << tuning->shards[s].server;
		apart |= (uint64_t)tuning->shards[s].apart << tuning->shards[s].server;
	}
	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		several |= (uint64_t)(there[t] > 1) << t;
		single |= (uint64_t)(there[t] > 1 && used[t] <= 1) << t;
		without |= (uint64_t)(there[t] > 0 && used[t] == 0) << t;
	}
	tuning->first_sum = smd_tuning_sum_weights(tuning);
	smd_shard_choice_begin(&tuning->choice, several & ~apart, single & ~apart, now_ns);
	smd_server_choice_begin(
		&tuning->servers, may_leave, without, spare & without, now_ns);
}

static void take_places(struct smd_tuning *tuning, uint64_t now_ns)
{
	unsigned places = smd_tuning_list_places(tuning);

	smd_balance_use(&tuning->balance, tuning->placed, places);
	smd_measured_rate_use(&tuning->rate, places, now_ns, smd_pressure_waited_ns());
}

int smd_tuning_create(struct smd_tuning *tuning, unsigned nranks,
	const struct smd_tuning_shard *shards, unsigned nshards, int scale, uint64_t now_ns)
{
	*tuning = (struct smd_tuning){
		.nshards = nshards,
		.shards = calloc(nshards, sizeof(*tuning->shards)),
		.before = calloc(nshards, sizeof(*tuning->before)),
		.parts = calloc(nshards, sizeof(*tuning->parts)),
		.weights = calloc(nshards, sizeof(*tuning->weights)),
		.placed = calloc(nshards, sizeof(*tuning->placed)),
		.rests = calloc(nshards, sizeof(*tuning->rests)),
		.tables = SMD_TUNING_TABLES_MOST,
		.tables_ns = now_ns,
	};
	if (!tuning->shards || !tuning->before || !tuning->parts || !tuning->weights ||
		!tuning->placed || !tuning->rests ||
		smd_measured_rate_create(
			&tuning->rate, nranks, nshards, now_ns, smd_pressure_waited_ns()) ||
		smd_balance_create(&tuning->balance, tuning->weights, nshards, now_ns)) {
		smd_tuning_destroy(tuning);
		return -ENOMEM;
	}
	memcpy(tuning->shards, shards, nshards * sizeof(*shards));
	take_places(tuning, now_ns);
	tuning->rate.next_ns = now_ns;
	begin_choices(tuning, now_ns);
	smd_chunk_search_begin(&tuning->search, scale, now_ns);
	tuning->looked_ns = now_ns;
	tuning->counted_ns = now_ns;
	tuning->waited_ns = smd_pressure_waited_ns();
	return 0;
}

void smd_tuning_go_on(struct smd_tuning *tuning, uint64_t now_ns)
{
	smd_server_choice_go_on(&tuning->servers, now_ns);
}

void smd_tuning_destroy(struct smd_tuning *tuning)
{
	free(tuning->shards);
	free(tuning->before);
	free(tuning->parts);
	free(tuning->weights);
	free(tuning->placed);
	free(tuning->rests);
	smd_measured_rate_destroy(&tuning->rate);
	smd_balance_destroy(&tuning->balance);
}

bool smd_tuning_searches(const struct smd_tuning *tuning, uint64_t now_ns)
{
	return tuning->fresh && (smd_chunk_search_is_on_trial(&tuning->search) ||
					smd_chunk_search_is_due(&tuning->search, now_ns));
}

void smd_tuning_bound_chunks(struct smd_tuning *tuning, int least, int most)
{
	tuning->search.least = least;
	tuning->search.most = most;
}

/* What tools/bench-rates keeps as a trace. */
static void tell(const char *what, unsigned place, uint64_t bytes, uint64_t ns)
{
	if (smd_log_enabled(SMD_LOG_DEBUG)) {
		smd_log(SMD_LOG_DEBUG, "rates", "%s %u: %llu bytes in %llu us", what, place,
			(unsigned long long)bytes, (unsigned long long)(ns / 1000));
	}
}

static void begin_span(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->began_ns = now_ns;
	tuning->amid = tuning->in_flight > 0;
	tuning->span = 0;
	tuning->ended = 0;
	tuning->skipped = 0;
	tuning->operations = 0;
	tuning->exchanged = 0;
	tuning->least = UINT64_MAX;
	tuning->most = 0;
}

static void note_size(struct smd_tuning *tuning, uint64_t bytes)
{
	tuning->least = bytes < tuning->least ? bytes : tuning->least;
	tuning->most = bytes > tuning->most ? bytes : tuning->most;
}

void smd_tuning_begin(struct smd_tuning *tuning, uint64_t bytes, uint64_t now_ns)
{
	if (tuning->in_flight == 0) {
		begin_span(tuning, now_ns);
		tuning->open = 0;
		tuning->together = 0;
	}
	tuning->in_flight++;
	tuning->together++;
	tuning->open += bytes;
	note_size(tuning, bytes);
}

void smd_tuning_skipped(struct smd_tuning *tuning, uint64_t bytes)
{
	tuning->skipped += bytes;
}

void smd_tuning_exchanged(struct smd_tuning *tuning)
{
	tuning->exchanged++;
}

static void take_span(struct smd_tuning *tuning, uint64_t now_ns)
{
	uint64_t ns = now_ns - tuning->began_ns;
	uint64_t bytes = tuning->ended;
	bool counts = false;

	/* What goes from rank to rank says nothing of servers. */
	if (!tuning->exchanged && smd_tuning_counts(bytes, tuning->skipped)) {
		uint64_t less = tuning->usual - tuning->usual / USUAL_TIMES;

		tuning->usual = tuning->most > less ? tuning->most : less;
		tell("operations", 0, bytes, ns);
		smd_rate_trial_took(&tuning->trial, bytes, ns);
		tuning->fresh |= tuning->trial.factor != 0;
		counts = smd_chunk_search_took(&tuning->search, bytes, ns);
		counts |= smd_shard_choice_took(&tuning->choice, bytes, ns);
		tuning->fresh |= counts;
		tuning->fresh |= smd_server_choice_took(&tuning->servers, bytes, ns);
	}
	if (counts || !smd_tuning_is_on_trial(tuning)) {
		tuning->counted_ns = now_ns;
	}
}

/* As much as was in flight at most. A power of two, because times of as many bytes are compared. */
static void find_span(struct smd_tuning *tuning)
{
	while (tuning->span < tuning->open) {
		tuning->span = tuning->span ? 2 * tuning->span : 1;
	}
}

void smd_tuning_end(struct smd_tuning *tuning, uint64_t bytes, uint64_t now_ns)
{
	uint64_t known = bytes < tuning->open ? bytes : tuning->open;
	bool whole;

	find_span(tuning);
	tuning->open -= known;
	tuning->ended += known;
	tuning->operations++;
	note_size(tuning, known);
	tuning->in_flight--;
	if (tuning->in_flight && (tuning->ended == 0 || tuning->ended < tuning->span)) {
		return;
	}
	/* Of what was in flight when it began a part had gone before: as much as has gone now of
	 * what is in flight, or else it says nothing. */
	whole = tuning->ended && (tuning->in_flight || !tuning->amid);
	smd_tuning_take_exchanges(tuning, whole, now_ns);
	if (whole) {
		take_span(tuning, now_ns);
	}
	begin_span(tuning, now_ns);
}

static void take_rest(struct smd_tuning *tuning, unsigned place)
{
	struct smd_tuning_rest *rest = &tuning->rests[place];

	tell("shard", place, rest->bytes, rest->ns);
	smd_balance_slice(&tuning->balance, place, rest->bytes, rest->ns);
	*rest = (struct smd_tuning_rest){0};
	tuning->fresh = true;
}

void smd_tuning_slice(
	struct smd_tuning *tuning, unsigned place, unsigned chunks, uint64_t bytes, uint64_t ns)
{
	struct smd_tuning_rest *rest = &tuning->rests[place];

	smd_measured_rate_slice(&tuning->rate, place, bytes, ns);
	rest->chunks += chunks;
	rest->bytes += bytes;
	rest->ns += ns;
	if (rest->ns >= SLICE_NS) {
		for (unsigned s = 0; s < tuning->balance.nshards; s++) {
			if (tuning->rests[s].chunks >= SLICE_CHUNKS ||
				tuning->rests[s].ns >= SLICE_NS) {
				take_rest(tuning, s);
			}
		}
	} else if (chunks >= SLICE_CHUNKS) {
		take_rest(tuning, place);
	}
}

/* Whether they do is known when enough time has gone; until then no search begins. */
static bool knows_who_decides(struct smd_tuning *tuning, uint64_t now_ns)
{
	uint64_t looked_ns = tuning->looked_ns;
	uint64_t waited_ns = tuning->waited_ns;

	if (now_ns - looked_ns < LOOK_NS) {
		return false;
	}
	tuning->looked_ns = now_ns;
	tuning->waited_ns = smd_pressure_waited_ns();
	tuning->search.processors_decide = !tuning->rate.links_decide &&
					   2 * (tuning->waited_ns - waited_ns) > now_ns - looked_ns;
	return true;
}

static bool search_wants(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (smd_chunk_search_is_due(&tuning->search, now_ns) &&
		!knows_who_decides(tuning, now_ns)) {
		return false;
	}
	return smd_chunk_search_want(&tuning->search, now_ns);
}

/* What each server carries, through all of its shards; of one with a shard that has had too little
 * to do nothing is known. */
static void take_rates(struct smd_tuning *tuning)
{
	double mbps[SMD_SERVERS_MAX] = {0};
	uint64_t unknown = 0;
	unsigned place = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		if (tuning->shards[s].weight) {
			double rate = smd_measured_rate_of(&tuning->rate, place++);

			mbps[tuning->shards[s].server] += rate;
			unknown |= (uint64_t)(rate == 0) << tuning->shards[s].server;
		}
	}
	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		if (mbps[t] > 0 && !(unknown >> t & 1)) {
			smd_shard_choice_found(&tuning->choice, t, mbps[t]);
		}
	}
}

/* Those that were found are not better. */
static void pause_rates(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->rate.links_decide = false;
	tuning->rate.next_ns = now_ns + smd_rate_trial_pause(&tuning->trial);
}

static bool rates_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	smd_tuning_list_places(tuning);
	if (!smd_measured_rate_is_due(&tuning->rate, tuning->placed, now_ns)) {
		return false;
	}
	take_rates(tuning);
	tuning->factor = smd_measured_rate_factor(
		&tuning->rate, tuning->placed, now_ns, smd_pressure_waited_ns());
	if (tuning->factor == 1) {
		smd_rate_trial_forget(
			&tuning->trial); /* as what comes of shards is measured anew */
		return false;
	}
	tuning->sure = tuning->rate.links_decide ? smd_shard_choice_sure(&tuning->choice) : 0;
	return true;
}

/* What was found is tried against what was before, with a few tables left for what else comes; not
 * where it has changed which shards there are, too. */
static bool doubts_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (smd_tuning_is_on_trial(tuning) || tuning->balance.on_trial || tuning->sure ||
		tuning->tables <= DOUBT_TABLES ||
		!smd_rate_trial_is_doubted(&tuning->trial, now_ns)) {
		return false;
	}
	tuning->factor = 1 / tuning->trial.kept;
	tuning->doubts = true;
	return true;
}

/* Of the trials of shards and of chunks one is on at a time, and shards come first. */
static bool trials_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (smd_tuning_exchanges_are_next(tuning, now_ns)) {
		return false; /* that one is next, when ranks have met */
	}
	if (!smd_chunk_search_is_on_trial(&tuning->search)) {
		tuning->cause = SMD_TUNING_SHARDS;
		if (smd_shard_choice_want(&tuning->choice, now_ns)) {
			return true;
		}
		if (smd_shard_choice_is_on_trial(&tuning->choice) ||
			smd_shard_choice_is_due(&tuning->choice, now_ns)) {
			return false;
		}
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	return search_wants(tuning, now_ns);
}

/* Whose shard has that place. */
static unsigned server_at(const struct smd_tuning *tuning, unsigned place)
{
	unsigned s = 0;

	while (!tuning->shards[s].weight || place--) {
		s++;
	}
	return tuning->shards[s].server;
}

static uint64_t list_servers(const struct smd_tuning *tuning)
{
	uint64_t servers = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		servers |= 1ull << tuning->shards[s].server;
	}
	return servers;
}

/* No other trial goes on beside one of servers. */
static bool servers_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	return !smd_shard_choice_is_on_trial(&tuning->choice) &&
	       !smd_chunk_search_is_on_trial(&tuning->search) &&
	       smd_server_choice_want(&tuning->servers, list_servers(tuning), now_ns);
}

static bool weights_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	bool wants = smd_balance_want(&tuning->balance, now_ns);
	unsigned place;
	double last;

	if (smd_balance_is_stuck(&tuning->balance, &place, &last)) {
		smd_server_choice_saw(&tuning->servers, server_at(tuning, place), last, now_ns);
	}
	return wants;
}

/* It gets operations. Nothing begins beside it then, and what does ends it. */
static bool exchange_trial_goes_on(const struct smd_tuning *tuning, uint64_t now_ns)
{
	const struct smd_exchange_choice *exchange = &tuning->exchange;

	return smd_exchange_choice_is_on_trial(exchange) &&
	       (exchange->missed == 0 ||
		       (exchange->missed < IDLE && now_ns - exchange->missed_ns < IDLE_NS));
}

/* What is wanted first: chunks are cut by rates, so these come before all else of servers. */
static bool find_cause(struct smd_tuning *tuning, uint64_t now_ns)
{
	enum smd_rate_verdict verdict = smd_rate_trial_judge(&tuning->trial, now_ns);

	tuning->cause = SMD_TUNING_RATES;
	tuning->doubts = false;
	tuning->back = verdict == SMD_RATE_LOST;
	if (tuning->back) {
		return true;
	}
	if (verdict == SMD_RATE_UNDONE) {
		pause_rates(tuning, now_ns);
	}
	tuning->cause = SMD_TUNING_EXCHANGES;
	if (smd_tuning_exchanges_go_on(tuning) &&
		smd_exchange_choice_want(&tuning->exchange, now_ns)) {
		return true;
	}
	if (exchange_trial_goes_on(tuning, now_ns) || verdict == SMD_RATE_OPEN) {
		return false;
	}
	tuning->cause = SMD_TUNING_RATES;
	if (!smd_shard_choice_is_on_trial(&tuning->choice) &&
		!smd_server_choice_is_on_trial(&tuning->servers) &&
		(rates_want(tuning, now_ns) || doubts_want(tuning, now_ns))) {
		return true;
	}
	tuning->cause = SMD_TUNING_SERVERS;
	if (servers_want(tuning, now_ns) || smd_server_choice_is_on_trial(&tuning->servers)) {
		return tuning->servers.wanted != tuning->servers.without;
	}
	tuning->cause = SMD_TUNING_EXCHANGES;
	if (smd_tuning_exchanges_want(tuning, now_ns)) {
		return true;
	}
	tuning->cause = SMD_TUNING_WEIGHTS;
	return weights_want(tuning, now_ns) || trials_want(tuning, now_ns);
}

static bool may_have_table(struct smd_tuning *tuning, uint64_t now_ns)
{
	while (tuning->tables < SMD_TUNING_TABLES_MOST &&
		now_ns - tuning->tables_ns >= SMD_TUNING_TABLE_EVERY_NS) {
		tuning->tables++;
		tuning->tables_ns += SMD_TUNING_TABLE_EVERY_NS;
	}
	if (tuning->tables == SMD_TUNING_TABLES_MOST) {
		tuning->tables_ns = now_ns;
	}
	return tuning->tables > 0 && now_ns >= tuning->refusals.next_ns;
}

bool smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (!tuning->fresh || !may_have_table(tuning, now_ns)) {
		return false;
	}
	tuning->fresh = false;
	if (!find_cause(tuning, now_ns)) {
		return false;
	}
	smd_tuning_make_table(tuning);
	if (tuning->cause != SMD_TUNING_EXCHANGES) {
		tuning->exchange.wanted = smd_tuning_settle_exchanges(tuning);
	}
	return true;
}

/* Of servers that are left out: no other shards of them are tried. */
static void forget_rates(struct smd_tuning *tuning)
{
	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		if (tuning->servers.wanted >> t & 1) {
			smd_shard_choice_found(&tuning->choice, t, 0);
		}
	}
}

/* The weights that were asked for; whether other shards are in use than before. */
static bool take_table(struct smd_tuning *tuning)
{
	bool others = false;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		others |= (tuning->shards[s].weight == 0) != (tuning->weights[s] == 0);
		tuning->shards[s].weight = tuning->weights[s];
	}
	return others;
}

static void apply_rates(struct smd_tuning *tuning, uint64_t now_ns)
{
	int before = tuning->search.scale;

	if (tuning->back && tuning->trial.doubts) {
		tuning->search = tuning->searched;
	} else {
		tuning->searched = tuning->search;
		smd_chunk_search_begin(&tuning->search, tuning->scale, now_ns);
	}
	smd_measured_rate_applied(&tuning->rate, now_ns, smd_pressure_waited_ns());
	if (tuning->sure) {
		smd_shard_choice_take(&tuning->choice, tuning->sure, !tuning->back);
	}
	if (tuning->back) {
		tuning->sure = 0;
		return;
	}
	smd_balance_scale(&tuning->balance, tuning->factor);
	if (tuning->doubts) {
		smd_rate_trial_doubt(&tuning->trial, before, now_ns);
	} else {
		smd_rate_trial_begin(&tuning->trial, tuning->factor, before, now_ns);
	}
	for (unsigned s = 0; s < tuning->nshards; s++) {
		tuning->before[s] = tuning->shards[s].weight;
	}
}

void smd_tuning_applied(struct smd_tuning *tuning, uint64_t now_ns)
{
	smd_refusals_end(&tuning->refusals);
	tuning->tables -= tuning->tables > 0;
	tuning->bounded = 0;
	memset(tuning->rests, 0, tuning->nshards * sizeof(*tuning->rests));
	switch (tuning->cause) {
	case SMD_TUNING_RATES:
		apply_rates(tuning, now_ns);
		break;
	case SMD_TUNING_WEIGHTS:
		smd_balance_applied(&tuning->balance, now_ns);
		break;
	case SMD_TUNING_SERVERS:
		smd_tuning_keep_parts(tuning);
		forget_rates(tuning);
		smd_server_choice_applied(&tuning->servers, now_ns);
		break;
	case SMD_TUNING_EXCHANGES:
		smd_exchange_choice_applied(&tuning->exchange, now_ns);
		break;
	case SMD_TUNING_SHARDS:
		smd_shard_choice_applied(&tuning->choice);
		break;
	case SMD_TUNING_CHUNKS:
		smd_chunk_search_applied(&tuning->search);
		smd_balance_forget(&tuning->balance);
		break;
	}
	if (tuning->cause != SMD_TUNING_EXCHANGES) {
		smd_exchange_choice_settle(&tuning->exchange, tuning->exchange.wanted);
		smd_exchange_choice_forget(&tuning->exchange);
	}
	smd_server_choice_forget(&tuning->servers);
	smd_shard_choice_forget(&tuning->choice);
	smd_chunk_search_forget(&tuning->search);
	if (tuning->cause != SMD_TUNING_RATES) {
		smd_rate_trial_forget(&tuning->trial);
	}
	if (take_table(tuning) || tuning->back) {
		take_places(tuning, now_ns);
	}
	if (tuning->back && tuning->trial.doubts) {
		smd_rate_trial_keep(&tuning->trial, now_ns);
	} else if (tuning->back) {
		pause_rates(tuning, now_ns);
	}
	tuning->back = false;
	tuning->doubts = false;
}

void smd_tuning_refused(struct smd_tuning *tuning, uint64_t now_ns)
{
	smd_refusals_add(&tuning->refusals, now_ns);
	if (tuning->cause == SMD_TUNING_RATES && tuning->doubts) { /* others come first */
		smd_rate_trial_keep(&tuning->trial, now_ns);
	}
	tuning->fresh = true; /* what wanted it may see nothing new */
}
