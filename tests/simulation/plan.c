/* Draws histories, and says them. */
#include "tests/simulation/plan.h"

#include "reduction_server/base/random.h"
#include "reduction_server/engine/buffer_pool.h"
#include "worker/libsummand/epoch_message.h"

#define MS_NS          1000000ull
#define FAULTS_ANY     4 /* fewer than these, of PLAN_ANY, */
#define FAULTS_CHANGES 6 /* and so many at most, of PLAN_CHANGES */
#define OPERATIONS_ANY 40
#define LATER_NS       (20000 * MS_NS) /* than a server may say nothing, and less than ranks wait */

static uint64_t draw(uint64_t *state, uint64_t below)
{
	return smd_random_next(state) % below;
}

static uint64_t draw_between(uint64_t *state, uint64_t least, uint64_t most)
{
	return least + draw(state, most - least + 1);
}

/* Most are small; some are as long as the largest. */
static uint64_t draw_skewed(uint64_t *state, uint64_t most)
{
	return draw(state, draw(state, most + 1) + 1);
}

static void draw_operation(
	const struct plan *plan, struct planned_operation *operation, uint64_t *state)
{
	*operation = (struct planned_operation){
		.collective =
			draw(state, 2) ? ALLREDUCE : (enum collective)draw(state, COLLECTIVES),
		.count = draw_skewed(state, 20000),
		.root = (int)draw(state, (uint64_t)plan->nranks),
		.in_place = draw(state, 2),
		.comm = (unsigned)draw(state, plan->ncomms),
	};
}

static void draw_fault(const struct plan *plan, struct planned_fault *fault, uint64_t *state)
{
	static const enum fault_kind often[] = {SERVER_KILLED, SERVER_KILLED, SERVER_KILLED,
		SERVER_STOPPED, SERVER_STOPPED, LANES_CUT, LANES_CUT, SERVER_DRAINED,
		SERVER_DRAINED, SERVER_DRAINED, RANK_KILLED};

	*fault = (struct planned_fault){
		.kind = often[draw(state, sizeof(often) / sizeof(often[0]))],
		.server = (unsigned)draw(state, plan->nservers),
		.rank = (int)draw(state, (uint64_t)plan->nranks),
		.operation = draw(state, 20)
				     ? (int)draw(state, (uint64_t)plan->noperations + 1) + CONNECTED
				     : AT_START,
		.after_ns = draw_skewed(state, (plan->delay_ms + 1) * 10 * MS_NS),
		.for_ns = draw_skewed(state, 20000 * MS_NS),
		.keep = draw(state, 3) ? (unsigned)draw(state, 4) : ~0u,
	};
}

/* With time for it to be taken in, in most histories. */
static void draw_start_again(struct plan *plan, struct planned_fault *fault, uint64_t *state)
{
	if ((fault->kind != SERVER_KILLED && fault->kind != SERVER_DRAINED) ||
		draw(state, 3) == 0) {
		return;
	}
	fault->again = true;
	fault->for_ns = draw_skewed(state, 1000 * MS_NS);
	for (int r = 0; r < plan->nranks; r++) {
		plan->pause_us[r] += draw(state, 3) ? (unsigned)draw_skewed(state, 200000) : 0;
	}
}

static void draw_any(struct plan *plan, uint64_t seed)
{
	static const unsigned delays_ms[] = {0, 0, 1, 5, 40};
	static const unsigned changes[] = {0, 2, 5, 20};
	static const unsigned limits_ms[] = {500, 1000, 5000, 15000};
	uint64_t s = seed * 2 + 1;

	*plan = (struct plan){
		.seed = seed,
		.nranks = (int)draw_between(&s, 2, RANKS_MAX),
		.nservers = (unsigned)draw_between(&s, 1, SERVERS_MAX),
		.shards = (unsigned)draw_between(&s, 1, 2),
		.chunk_bytes = 1024u << draw(&s, 6),
		.window = (unsigned)draw_between(&s, 1, 4),
		.memory_bytes = (size_t)8 << 20,
		.delay_ms = delays_ms[draw(&s, 5)],
		.heartbeat_ms = limits_ms[draw(&s, 4)],
		.ncomms = (unsigned)draw_between(&s, 1, COMMS_MAX),
		.noperations = (int)draw_between(&s, 1, OPERATIONS_ANY),
		.changes = changes[draw(&s, 4)],
		.nfaults = (unsigned)draw(&s, FAULTS_ANY),
	};
	for (int r = 0; r < plan->nranks; r++) {
		plan->poll[r] = draw(&s, 4) == 0;
		plan->depth[r] = (int)draw_between(&s, 1, DEPTH_MAX);
		plan->pause_us[r] = draw(&s, 3) ? 0 : (unsigned)draw_skewed(&s, 20000);
	}
	for (int k = 0; k < plan->noperations; k++) {
		draw_operation(plan, &plan->operations[k], &s);
	}
	for (unsigned i = 0; i < plan->nfaults; i++) {
		draw_fault(plan, &plan->faults[i], &s);
	}
	for (unsigned i = 0; i < plan->nfaults; i++) {
		draw_start_again(plan, &plan->faults[i], &s);
	}
	plan->aftermath = draw(&s, 2);
	for (unsigned i = 0; i < AFTERMATH_OPERATIONS; i++) {
		draw_operation(plan, &plan->afterwards[i], &s);
		plan->afterwards[i].comm = i % plan->ncomms;
		plan->afterwards[i].count += i < plan->ncomms ? 20000 : 0; /* to fill windows */
	}
	plan->memory_bytes *= plan->shards;
}

/* ---- while ranks agree ---- */

/* What makes them agree on another table: a server that is there again, or one that is drained. */
static void draw_occasion(struct plan *plan, struct planned_fault *fault, uint64_t *state)
{
	draw_fault(plan, fault, state);
	fault->kind = draw(state, 2) ? SERVER_KILLED : SERVER_DRAINED;
	fault->operation = (int)draw(state, (uint64_t)plan->noperations / 2 + 1);
	fault->again = fault->kind == SERVER_KILLED || draw(state, 2);
	fault->for_ns = draw_skewed(state, 1000 * MS_NS);
}

static void draw_moment(const struct plan *plan, struct planned_fault *fault, uint64_t *state)
{
	static const uint8_t messages[] = {SMD_EPOCH_AHEAD, SMD_EPOCH_PROMISED, SMD_EPOCH_RECORD,
		SMD_EPOCH_CANCEL, SMD_EPOCH_SEALED, SMD_EPOCH_ASK, SMD_EPOCH_REACHES};

	fault->operation = AT_MESSAGE;
	fault->about = (enum change)draw(state, CHANGES);
	/* The last three are of no candidate. */
	fault->message = messages[draw(state, fault->about == CHANGE_ANY ? 7 : 4)];
	fault->messages = (unsigned)draw_skewed(state, fault->about == CHANGE_ANY ? 5 : 3);
	fault->after_ns = draw(state, 2) ? 0 : draw_skewed(state, (plan->delay_ms + 1) * MS_NS);
}

/* Mostly of another server, and now and then together with the one before. */
static void draw_blow(struct plan *plan, unsigned i, uint64_t *state)
{
	static const enum fault_kind often[] = {SERVER_KILLED, SERVER_KILLED, SERVER_KILLED,
		SERVER_KILLED, SERVER_DRAINED, SERVER_DRAINED, SERVER_STOPPED, LANES_CUT, LANES_CUT,
		RANK_KILLED};
	struct planned_fault *fault = &plan->faults[i];
	unsigned other = 1 + (unsigned)draw(state, plan->nservers - 1);

	draw_fault(plan, fault, state);
	fault->kind = often[draw(state, sizeof(often) / sizeof(often[0]))];
	fault->rank = draw(state, 2) ? 0 : fault->rank;
	if (draw(state, 5)) {
		fault->server = (plan->faults[0].server + other) % plan->nservers;
	}
	draw_moment(plan, fault, state);
	if (i > 1 && draw(state, 2)) {
		fault->message = plan->faults[i - 1].message;
		fault->messages = plan->faults[i - 1].messages;
		fault->about = plan->faults[i - 1].about;
	}
}

/* One is there again, and at some moment of that all others are lost. */
static void draw_all_others(struct plan *plan, uint64_t *state)
{
	struct planned_fault *first = &plan->faults[1];

	plan->faults[0].kind = SERVER_KILLED;
	plan->faults[0].again = true;
	plan->nfaults = plan->nservers;
	draw_moment(plan, first, state);
	first->about = CHANGE_RETURN;
	first->message = draw(state, 2) ? SMD_EPOCH_RECORD : first->message;
	for (unsigned i = 1; i < plan->nfaults; i++) {
		uint64_t late = draw_skewed(state, (plan->delay_ms + 1) * 10 * MS_NS);

		plan->faults[i] = *first;
		plan->faults[i].kind = draw(state, 5) ? SERVER_KILLED : SERVER_DRAINED;
		plan->faults[i].server = (plan->faults[0].server + i) % plan->nservers;
		plan->faults[i].after_ns = draw(state, 2) ? late : first->after_ns;
		plan->faults[i].keep = (unsigned)draw(state, 4);
	}
}

/* So little that windows and the streams of other tables do not all have a place. */
static void draw_memory(struct plan *plan, uint64_t *state)
{
	size_t one = (size_t)plan->nranks + 1;

	plan->scarce = draw(state, 4) == 0;
	if (plan->scarce) {
		plan->memory_bytes = SMD_BUFFER_POOL_STRIDE(plan->chunk_bytes) * plan->shards *
				     plan->ncomms * one * draw_between(state, 12, 24);
	}
}

static void draw_changes(struct plan *plan, uint64_t seed)
{
	static const unsigned refusals[] = {0, 0, 2, 4};
	uint64_t s = seed * 2 + 0x10001;

	plan->nservers = (unsigned)draw_between(&s, 2, SERVERS_MAX);
	plan->refusals = refusals[draw(&s, 4)];
	draw_memory(plan, &s);
	plan->nfaults = (unsigned)draw_between(&s, 1, FAULTS_CHANGES);
	draw_occasion(plan, &plan->faults[0], &s);
	for (unsigned i = 1; i < plan->nfaults; i++) {
		draw_blow(plan, i, &s);
	}
	if (draw(&s, 3) == 0) {
		draw_all_others(plan, &s);
	}
	for (unsigned i = 1; i < plan->nfaults; i++) {
		draw_start_again(plan, &plan->faults[i], &s);
	}
	for (int r = 0; r < plan->nranks; r++) {
		plan->pause_us[r] = draw(&s, 3) ? (unsigned)draw_skewed(&s, 200000) : 0;
	}
}

/* ---- while ranks begin ---- */

/* Others have said JOIN by the time that a late one begins: else it may wait for all servers. */
static void draw_late_ranks(struct plan *plan, uint64_t *state)
{
	int first = (int)draw(state, (uint64_t)plan->nranks);
	int punctual = (first + 1) % plan->nranks;

	for (int r = 0; r < plan->nranks; r++) {
		if (r == first || (r != punctual && draw(state, 4) == 0)) {
			plan->late_ns[r] = 200 * MS_NS + draw_skewed(state, 5000 * MS_NS);
		}
	}
}

/* Most servers are there again before a late rank waits for them in vain. */
static void draw_loss(struct plan *plan, struct planned_fault *fault, uint64_t *state)
{
	draw_fault(plan, fault, state);
	fault->kind = draw(state, 4) ? SERVER_KILLED : fault->kind;
	fault->operation = OTHERS_WAIT;
	fault->after_ns = draw_skewed(state, 5000 * MS_NS);
	draw_start_again(plan, fault, state);
	if (fault->again) {
		fault->for_ns = draw_skewed(state, 4000 * MS_NS);
	}
}

static void draw_late(struct plan *plan, uint64_t seed)
{
	uint64_t s = seed * 2 + 0x20001;

	plan->nservers = (unsigned)draw_between(&s, 2, SERVERS_MAX);
	draw_late_ranks(plan, &s);
	plan->nfaults = (unsigned)draw_between(&s, 1, FAULTS_ANY - 1);
	draw_loss(plan, &plan->faults[0], &s);
	for (unsigned i = 1; i < plan->nfaults; i++) {
		if (draw(&s, 2)) {
			draw_loss(plan, &plan->faults[i], &s);
			continue;
		}
		draw_fault(plan, &plan->faults[i], &s);
		plan->faults[i].operation =
			(int)draw(&s, (uint64_t)plan->noperations + 1) + CONNECTED;
		draw_start_again(plan, &plan->faults[i], &s);
	}
}

/* ---- more ---- */

/* At an operation, or while ranks agree: on another one that is added, too. */
static void draw_addition(struct plan *plan, uint64_t *state)
{
	struct planned_fault *addition = &plan->faults[plan->nfaults++];

	draw_fault(plan, addition, state);
	addition->kind = SERVER_ADDED;
	addition->for_ns = draw_skewed(state, 3000 * MS_NS);
	addition->named_first = draw(state, 2);
	if (draw(state, 4) == 0) {
		draw_moment(plan, addition, state);
	} else if (addition->operation > 0) {
		addition->operation /= 2; /* with time for it to be taken in */
	}
}

/* Some of what was to meet others meets those that are added, mostly just when they are taken in.
 */
static void draw_targets(struct plan *plan, uint64_t *state)
{
	for (unsigned i = 0; i < plan->nfaults; i++) {
		struct planned_fault *fault = &plan->faults[i];

		if (fault->kind == SERVER_ADDED || fault->kind == RANK_KILLED || draw(state, 3)) {
			continue;
		}
		fault->server = plan->nservers + (unsigned)draw(state, plan->nadded);
		if (draw(state, 3)) {
			draw_moment(plan, fault, state);
			fault->about = CHANGE_RETURN;
		}
	}
}

static void draw_additions(struct plan *plan, uint64_t *state)
{
	plan->nadded = (unsigned)draw(state, ADDED_MAX + 1);
	for (unsigned i = 0; i < plan->nadded; i++) {
		draw_addition(plan, state);
	}
	if (plan->nadded) {
		draw_targets(plan, state);
		for (int r = 0; r < plan->nranks; r++) {
			plan->pause_us[r] +=
				draw(state, 3) ? (unsigned)draw_skewed(state, 200000) : 0;
		}
	}
}

/* Lanes so slow that they are what decides, most of them, and operations enough to find that out.
 */
static void draw_measured(struct plan *plan, uint64_t *state)
{
	static const unsigned rates_mbps[] = {0, 10, 30, 100, 1000};
	static const unsigned waited[] = {0, 0, 0, 30, 80};

	plan->measured = true;
	plan->rate_least_mbps = rates_mbps[draw(state, 5)];
	plan->rate_most_mbps = plan->rate_least_mbps * (unsigned)draw_between(state, 1, 4);
	plan->waited = waited[draw(state, 5)];
	for (int r = 0; r < plan->nranks; r++) {
		plan->pause_us[r] = draw(state, 2) ? 0 : plan->pause_us[r];
	}
	for (; plan->noperations < OPERATIONS_MAX; plan->noperations++) {
		draw_operation(plan, &plan->operations[plan->noperations], state);
	}
}

/*
 * Between the ranks in turn and all servers but the last, which nothing happens to; in pauses that let
 * each be taken in again, after a delay that is the least one where it has stayed (reconnection.c).
 */
static void draw_losses(struct plan *plan, uint64_t seed)
{
	uint64_t s = seed * 2 + 0x60001;

	plan->loses = true;
	plan->aftermath = true;
	plan->nservers = SERVERS_MAX;
	plan->heartbeat_ms = 5000;
	for (plan->noperations = 0; plan->noperations < OPERATIONS_MAX; plan->noperations++) {
		draw_operation(plan, &plan->operations[plan->noperations], &s);
	}
	for (int r = 0; r < plan->nranks; r++) {
		plan->pause_us[r] = 15000000;
	}
	plan->nfaults = LOSSES;
	for (unsigned i = 0; i < LOSSES; i++) {
		draw_fault(plan, &plan->faults[i], &s);
		plan->faults[i].kind = LANES_CUT;
		plan->faults[i].server = i % (SERVERS_MAX - 1);
		plan->faults[i].operation = (int)i;
	}
}

static void draw_more(struct plan *plan, uint64_t seed)
{
	uint64_t s = seed * 2 + 0x40001;

	if (draw(&s, 3) == 0) {
		draw_changes(plan, seed);
	} else if (draw(&s, 4) == 0) {
		draw_late(plan, seed);
	}
	draw_additions(plan, &s);
	if (draw(&s, 2)) {
		plan->segment_bytes = (size_t)1024 << draw(&s, 5);
	}
	if (draw(&s, 2)) {
		draw_measured(plan, &s);
	}
}

/* From 1 to 16 KiB on, most of them: no rank returns from these before all have the result. */
static void draw_large(struct plan *plan, uint64_t seed)
{
	static void (*const others[])(struct plan * plan, uint64_t seed) = {
		NULL, draw_changes, draw_late, draw_more};
	uint64_t s = seed * 2 + 0x80001;
	unsigned other = (unsigned)draw(&s, 4);

	if (others[other]) {
		others[other](plan, seed);
	}
	plan->larger = 16u << draw(&s, 5);
}

void plan_draw(struct plan *plan, enum plan_kind kind, uint64_t seed)
{
	static void (*const draws[])(struct plan * plan, uint64_t seed) = {
		[PLAN_CHANGES] = draw_changes, [PLAN_LATE] = draw_late,
		[PLAN_LOSSES] = draw_losses, [PLAN_MORE] = draw_more,
		[PLAN_LARGE] = draw_large};

	draw_any(plan, seed);
	if (draws[kind]) {
		draws[kind](plan, seed);
	}
	plan->spares = plan->shards > 1 && seed % 7 == 3; /* not drawn: others stay as they were */
	plan->leaves_out = seed % 13 == 5;
	plan->spare = seed % 11 == 7 ? (unsigned)(seed / 11 % 62) + 1 : 0;
	for (int r = 0; r < plan->nranks && seed % 17 == 6; r++) {
		plan->late_ns[r] += plan->late_ns[r] ? LATER_NS : 0;
	}
}

/* ---- in words ---- */

const struct planned_operation *plan_operation(const struct plan *plan, int number)
{
	return number < plan->noperations
		       ? &plan->operations[number]
		       : &plan->afterwards[(number - plan->noperations) % AFTERMATH_OPERATIONS];
}

static void print_fault(const struct planned_fault *fault, FILE *out)
{
	static const char *const kinds[FAULT_KINDS] = {
		"is killed", "is stopped", "is drained", "", "is killed", ""};
	static const char *const messages[] = {
		"", "SEALED", "ASK", "EPOCH", "AHEAD", "PROMISED", "CANCEL", "REACHES"};
	static const char *const about[CHANGES] = {
		"", " of a server that is there again", " of one that is drained"};

	if (fault->kind == LANES_CUT) {
		fprintf(out, "  the lanes between rank %d and server %u are cut", fault->rank,
			fault->server);
	} else if (fault->kind == SERVER_ADDED) {
		fprintf(out, "  a server is added: it %s, and %s %.3f ms later",
			fault->named_first ? "is named" : "listens",
			fault->named_first ? "listens" : "is named", (double)fault->for_ns / 1e6);
	} else if (fault->kind == RANK_KILLED) {
		fprintf(out, "  rank %d %s", fault->rank, kinds[fault->kind]);
	} else {
		fprintf(out, "  server %u %s", fault->server, kinds[fault->kind]);
	}
	if (fault->kind == SERVER_STOPPED) {
		fprintf(out, " for %.3f ms", (double)fault->for_ns / 1e6);
	}
	if (fault->again) {
		fprintf(out, " and started again after %.3f ms", (double)fault->for_ns / 1e6);
	}
	if (fault->operation == AT_MESSAGE) {
		fprintf(out,
			", %.3f ms after %s%s was about to be said, which it was %u times before",
			(double)fault->after_ns / 1e6, messages[fault->message],
			about[fault->about], fault->messages);
	} else if (fault->operation == OTHERS_WAIT) {
		fprintf(out, ", %.3f ms after all that are not late had connected",
			(double)fault->after_ns / 1e6);
	} else if (fault->operation < 0) {
		fprintf(out, ", %.3f ms after the start%s", (double)fault->after_ns / 1e6,
			fault->operation == CONNECTED ? " of groups" : "");
	} else {
		fprintf(out, ", %.3f ms after rank 0 began operation %d",
			(double)fault->after_ns / 1e6, fault->operation);
	}
	if (fault->kind == SERVER_KILLED || fault->kind == RANK_KILLED ||
		fault->kind == LANES_CUT) {
		fprintf(out, "; of the frames under way %s%u arrive",
			fault->keep == ~0u ? "all, " : "", fault->keep);
	}
	fprintf(out, "\n");
}

static void print_operation(const struct plan *plan, int number, FILE *out)
{
	static const char *const names[COLLECTIVES] = {"all-reduce", "reduce", "broadcast"};
	const struct planned_operation *operation = plan_operation(plan, number);

	fprintf(out, "  %s %d: %s of %zu elements, communicator %u",
		number < plan->noperations ? "operation" : "then, in turn,", number,
		names[operation->collective], operation->count, operation->comm);
	if (operation->collective != ALLREDUCE) {
		fprintf(out, ", root %d", operation->root);
	}
	fprintf(out, "%s\n", operation->in_place ? ", in place" : "");
}

void plan_print(const struct plan *plan, FILE *out)
{
	fprintf(out,
		"seed %llu: %d ranks, %u servers of %u shards, chunks of %u bytes, window %u, "
		"frames up to %u ms late, "
		"silence of %u ms, %u communicators, other tables at one operation in %u%s%s%s, "
		"servers of %zu KiB, one candidate in %u refused\n",
		(unsigned long long)plan->seed, plan->nranks, plan->nservers, plan->shards,
		plan->chunk_bytes, plan->window, plan->delay_ms, plan->heartbeat_ms, plan->ncomms,
		plan->changes, plan->spares ? " that spare shards" : "",
		plan->leaves_out ? " that leave servers out" : "",
		plan->aftermath ? ", with an aftermath" : "", plan->memory_bytes >> 10,
		plan->refusals);
	if (plan->spare) {
		fprintf(out, "  servers that are spare, as bits: %#x\n", plan->spare);
	}
	if (plan->larger) {
		fprintf(out, "  operations taken for %u times as large\n", plan->larger);
	}
	if (plan->segment_bytes) {
		fprintf(out, "  operations in segments of %zu bytes\n", plan->segment_bytes);
	}
	if (plan->measured) {
		fprintf(out,
			"  tables as measured; lanes carry %u to %u Mbit/s (0: all), processors "
			"are "
			"waited for in %u %% of the time\n",
			plan->rate_least_mbps, plan->rate_most_mbps, plan->waited);
	}
	for (int r = 0; r < plan->nranks; r++) {
		fprintf(out, "  rank %d: %s, %d at once, pauses of up to %u us", r,
			plan->poll[r] ? "polls" : "has a thread", plan->depth[r],
			plan->pause_us[r]);
		if (plan->late_ns[r]) {
			fprintf(out, ", begins %.3f ms late", (double)plan->late_ns[r] / 1e6);
		}
		fprintf(out, "\n");
	}
	for (int k = 0; k < plan->noperations + (plan->aftermath ? AFTERMATH_OPERATIONS : 0); k++) {
		print_operation(plan, k, out);
	}
	for (unsigned i = 0; i < plan->nfaults; i++) {
		print_fault(&plan->faults[i], out);
	}
}
