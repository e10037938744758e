/*
 * The whole loop, from what rank 0 sees to the next table: over traces that tools/bench-rates has
 * recorded, and over some that are made up. What is asserted is how many tables there are in a
 * minute, that they do not go to and fro, and that shards finish together in the end.
 *
 * A trace says for each operation what a byte of each shard took then, and how much longer the
 * operation took than its last shard. It is played again with the shares of the present table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "worker/libsummand/tuning.h"

enum { SHARDS_MAX = 8, MOMENTS_MAX = 4096, TABLES_MAX = 512, MINUTES = 5 };
#define MINUTE_NS (60 * SMD_SECOND_NS)

uint64_t __wrap_smd_pressure_waited_ns(void);

uint64_t __wrap_smd_pressure_waited_ns(void)
{
	return 0;
}

/* An operation. */
struct moment {
	double bytes;
	double cost[SHARDS_MAX]; /* ns that a byte of the shard took, */
	double late[SHARDS_MAX]; /* and its share besides, however little */
	double rest;             /* its time to that of the last shard */
};

struct trace {
	unsigned nranks;
	unsigned nshards;
	unsigned nmoments;
	unsigned change; /* the first moment after it */
	struct moment moments[MOMENTS_MAX];
};

/* ---- playing ---- */

struct player {
	struct smd_tuning tuning;
	uint64_t now_ns;
	double costs; /* what a share costs more in chunks of another size: to each power of two */
	unsigned ntables;
	uint64_t at_ns[TABLES_MAX];
	double shares[TABLES_MAX][SHARDS_MAX];
	double spent_ns[SHARDS_MAX]; /* by each place, of operations since it was cleared */
};

static double share_of(const struct smd_tuning *tuning, unsigned shard)
{
	double sum = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		sum += tuning->shards[s].weight;
	}
	return tuning->shards[shard].weight / sum;
}

static void note_table(struct player *player)
{
	assert_in_range(player->ntables, 0, TABLES_MAX - 1);
	player->at_ns[player->ntables] = player->now_ns;
	for (unsigned s = 0; s < player->tuning.nshards; s++) {
		player->shares[player->ntables][s] = share_of(&player->tuning, s);
	}
	player->ntables++;
}

static void play_moment(struct player *player, const struct moment *moment)
{
	struct smd_tuning *tuning = &player->tuning;
	double slower = 1 + player->costs * abs(tuning->search.scale);
	double last = 0;
	unsigned place = 0;

	smd_tuning_begin(tuning, (uint64_t)moment->bytes, player->now_ns);
	for (unsigned s = 0; s < tuning->nshards; s++) {
		double bytes = moment->bytes * share_of(tuning, s);
		double ns = bytes * moment->cost[s] * slower + moment->late[s];

		if (tuning->shards[s].weight) {
			smd_tuning_slice(tuning, place, 8, (uint64_t)bytes, (uint64_t)ns);
			last = fmax(last, ns);
			player->spent_ns[place++] += ns;
		}
	}
	player->now_ns += (uint64_t)(last * moment->rest);
	smd_tuning_end(tuning, (uint64_t)moment->bytes, player->now_ns);
	if (smd_tuning_want(tuning, player->now_ns)) {
		smd_tuning_applied(tuning, player->now_ns);
		note_table(player);
	}
}

static void start(struct player *player, const struct trace *trace, unsigned shards_of_a_server)
{
	struct smd_tuning_shard shards[SHARDS_MAX];

	*player = (struct player){.now_ns = SMD_SECOND_NS, .costs = 0.1};
	for (unsigned s = 0; s < trace->nshards; s++) {
		shards[s] =
			(struct smd_tuning_shard){s / shards_of_a_server, 10000, true, 0, false};
	}
	assert_int_equal(smd_tuning_create(&player->tuning, trace->nranks, shards, trace->nshards,
				 0, player->now_ns),
		0);
}

/* What comes after the change, but for its beginning, in which links and shares still change. */
static unsigned again_from(const struct trace *trace)
{
	return (trace->change + trace->nmoments) / 2;
}

/* The trace, and that part of it again and again, for five minutes. */
static void play(struct player *player, const struct trace *trace)
{
	uint64_t end_ns = SMD_SECOND_NS + MINUTES * MINUTE_NS;
	unsigned m = 0;

	while (player->now_ns < end_ns) {
		play_moment(player, &trace->moments[m++]);
		m = m == trace->nmoments ? again_from(trace) : m;
	}
}

/* ---- what is right ---- */

static unsigned tables_in(const struct player *player, unsigned minute)
{
	unsigned n = 0;

	for (unsigned t = 0; t < player->ntables; t++) {
		n += (player->at_ns[t] - SMD_SECOND_NS) / MINUTE_NS == minute;
	}
	return n;
}

static bool are_equal(const double *a, const double *b, unsigned nshards)
{
	for (unsigned s = 0; s < nshards; s++) {
		if (fabs(a[s] - b[s]) > 0.01) {
			return false;
		}
	}
	return true;
}

/* Tables whose shares are those of before the one before. */
static unsigned returns(const struct player *player, unsigned minute)
{
	unsigned n = 0;

	for (unsigned t = 2; t < player->ntables; t++) {
		n += (player->at_ns[t] - SMD_SECOND_NS) / MINUTE_NS >= minute &&
		     are_equal(player->shares[t], player->shares[t - 2], player->tuning.nshards) &&
		     !are_equal(player->shares[t], player->shares[t - 1], player->tuning.nshards);
	}
	return n;
}

/* Tables that give a shard less after one that gave it more, or the other way round, by a hundredth
 * of all at least: to and fro, by whatever steps. */
static unsigned turns(const struct player *player, unsigned minute)
{
	unsigned n = 0;

	for (unsigned t = 2; t < player->ntables; t++) {
		bool turned = false;

		for (unsigned s = 0; s < player->tuning.nshards; s++) {
			double step = player->shares[t][s] - player->shares[t - 1][s];
			double before = player->shares[t - 1][s] - player->shares[t - 2][s];

			turned |= fmin(fabs(step), fabs(before)) > 0.01 && step * before < 0;
		}
		n += turned && (player->at_ns[t] - SMD_SECOND_NS) / MINUTE_NS >= minute;
	}
	return n;
}

/* SMD_TUNING_TABLES_MOST at once, and one each four seconds. */
static void check_bound(const struct player *player)
{
	for (unsigned minute = 0; minute < MINUTES; minute++) {
		assert_in_range(tables_in(player, minute), 0, SMD_TUNING_TABLES_MOST + 15);
	}
	assert_in_range(player->ntables, 0, SMD_TUNING_TABLES_MOST + 15 * MINUTES);
}

static void check_together(struct player *player, const struct trace *trace, double together)
{
	unsigned places = player->tuning.balance.nshards;
	double last = 0;
	double sum = 0;

	memset(player->spent_ns, 0, sizeof(player->spent_ns));
	for (unsigned m = again_from(trace); m < trace->nmoments; m++) {
		play_moment(player, &trace->moments[m]);
	}
	for (unsigned p = 0; p < places; p++) {
		last = fmax(last, player->spent_ns[p]);
		sum += player->spent_ns[p];
	}
	assert_true(last * places / sum < together);
}

/* What comes to rest: after two minutes hardly a table, none to and fro but where rates are
 * doubted, twice, and all finish together. */
static void check_settled(struct player *player, const struct trace *trace, double together)
{
	check_bound(player);
	assert_in_range(
		tables_in(player, 2) + tables_in(player, 3) + tables_in(player, 4), 0, 14 + 4);
	assert_in_range(returns(player, 2), 0, 1);
	assert_in_range(turns(player, 2), 0, 3);
	check_together(player, trace, together);
}

/* ---- recorded ---- */

/* A line of a trace: of a shard `s SHARD BYTES US`, of an operation `o BYTES US`; `c`: the change.
 */
static void take_line(struct trace *trace, const char *line, struct moment *next)
{
	unsigned shard;
	double bytes;
	double us;
	double last = 0;

	if (line[0] == 'c') {
		trace->change = trace->nmoments;
	} else if (sscanf(line, "s %u %lf %lf", &shard, &bytes, &us) == 3) {
		assert_in_range(shard, 0, trace->nshards - 1);
		next->cost[shard] = us * 1e3 / bytes;
	} else if (sscanf(line, "o %lf %lf", &bytes, &us) == 2) {
		next->bytes = bytes;
		for (unsigned s = 0; s < trace->nshards; s++) {
			last = fmax(last, next->cost[s] * bytes / trace->nshards);
			if (next->cost[s] <= 0) {
				return; /* something is seen of all from the next one on */
			}
		}
		next->rest = fmax(1, us * 1e3 / last);
		assert_in_range(trace->nmoments, 0, MOMENTS_MAX - 1);
		trace->moments[trace->nmoments++] = *next;
	} else {
		fail_msg("no line of a trace: %s", line);
	}
}

static void read_trace(struct trace *trace, const char *name)
{
	struct moment next = {.bytes = 0};
	char path[4096];
	char line[128];
	FILE *file;

	*trace = (struct trace){.nranks = 0};
	snprintf(path, sizeof(path), "%s/tests/unit/rates/traces/%s.txt", getenv("SUMMAND_SOURCE"),
		name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "ranks %u shards %u ", &trace->nranks, &trace->nshards), 2);
	assert_in_range(trace->nshards, 2, SHARDS_MAX);
	while (fgets(line, sizeof(line), file)) {
		take_line(trace, line, &next);
	}
	fclose(file);
	assert_true(trace->nmoments > trace->change + 20);
}

static void recorded_traces_come_to_rest(void **state)
{
	static const struct {
		const char *name;
		double together;
	} traces[] = {{"busy", 1.12}, {"link", 1.12}, {"back", 1.12}, {"processor", 1.3}};
	static struct trace trace;
	static struct player player;

	(void)state;
	for (unsigned i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
		read_trace(&trace, traces[i].name);
		start(&player, &trace, 1);
		play(&player, &trace);
		print_message("%s: tables a minute %u %u %u %u %u, %u returns, %u turns\n",
			traces[i].name, tables_in(&player, 0), tables_in(&player, 1),
			tables_in(&player, 2), tables_in(&player, 3), tables_in(&player, 4),
			returns(&player, 0), turns(&player, 0));
		check_settled(&player, &trace, traces[i].together);
		smd_tuning_destroy(&player.tuning);
	}
}

/* ---- made up ---- */

static double draw(uint64_t *random)
{
	return (double)(smd_random_next(random) >> 11) / 9007199254740992.0;
}

/* Of 4 MiB, with four shards of a link that carries so many Mbit/s, for four ranks. */
static void make_trace(struct trace *trace, double mbps, double noise, uint64_t random)
{
	*trace = (struct trace){
		.nranks = 4, .nshards = 4, .nmoments = MOMENTS_MAX, .change = MOMENTS_MAX / 2};
	for (unsigned m = 0; m < MOMENTS_MAX; m++) {
		struct moment *moment = &trace->moments[m];

		moment->bytes = 4 << 20;
		for (unsigned s = 0; s < trace->nshards; s++) {
			moment->cost[s] =
				8000.0 * trace->nranks / mbps * (1 + noise * draw(&random));
		}
		moment->rest = 1 + noise * draw(&random);
	}
}

/* From that moment on the shard takes so much longer, for so many, and again after as many. */
static void slow_down(
	struct trace *trace, unsigned shard, double slower, unsigned from, unsigned length)
{
	for (unsigned m = from; m < trace->nmoments; m++) {
		if ((m - from) / length % 2 == 0) {
			trace->moments[m].cost[shard] *= slower;
		}
	}
}

static void made_up_traces_come_to_rest(void **state)
{
	static const double mbps[] = {1000, 9000, 100000};
	static struct trace trace;
	static struct player player;

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		make_trace(&trace, mbps[i % 3], 0.1 * (i / 3 % 3), i + 1);
		if (i / 9 % 3) { /* a link that is halved, or a host that has little to give */
			slow_down(&trace, i % 4, 2 * (i / 9 % 3), MOMENTS_MAX / 2, MOMENTS_MAX);
		}
		start(&player, &trace, 1 + i % 2);
		play(&player, &trace);
		check_settled(&player, &trace, 1.12);
		smd_tuning_destroy(&player.tuning);
	}
}

/* A server without a processor of its own is late with any share: the others are faster alone, until
 * it has one again. */
static void one_that_is_late_is_left_out_and_taken_back(void **state)
{
	static struct trace late;
	static struct trace again;
	static struct player player;

	(void)state;
	for (unsigned shards = 1; shards <= 2; shards++) { /* of a server */
		make_trace(&late, 1000, 0.1, shards);
		make_trace(&again, 1000, 0.1, shards + 2);
		for (unsigned m = 0; m < late.nmoments; m++) {
			for (unsigned s = 0; s < shards; s++) {
				late.moments[m].late[s] = 60e6;
				late.moments[m].cost[s] *= 3;
			}
		}
		start(&player, &late, shards);
		play(&player, &late);
		check_bound(&player); /* trials go to and fro, and are rare */
		assert_in_range(tables_in(&player, 2) + tables_in(&player, 3) + tables_in(&player, 4), 0, 24);
		check_together(&player, &late, 1.12);
		assert_int_equal(player.tuning.servers.settled, 1);
		smd_tuning_destroy(&player.tuning);
		start(&player, &late, shards);
		for (unsigned m = 0; m < 300; m++) {
			play_moment(&player, &late.moments[m]);
		}
		assert_int_equal(player.tuning.servers.settled, 1);
		play(&player, &again);
		check_settled(&player, &again, 1.12);
		assert_int_equal(player.tuning.servers.settled, 0);
		smd_tuning_destroy(&player.tuning);
	}
}

/* Networks that are never the same: nothing is right for long, and tables are bounded all the same.
 */
static void what_never_rests_is_bounded(void **state)
{
	static const unsigned lengths[] = {3, 10, 30, 100, 300, 1000};
	static struct trace trace;
	static struct player player;
	unsigned most = 0;

	(void)state;
	for (unsigned i = 0; i < 24; i++) {
		make_trace(&trace, i % 2 ? 1000 : 60000, 0.3 * (i % 3), i + 1);
		for (unsigned s = 0; s < 4; s++) {
			slow_down(&trace, s, 1.5 + i % 5, s * 7, lengths[i % 6] * (s + 1));
		}
		trace.change = 0;
		start(&player, &trace, 1 + i % 2);
		player.costs = i % 4 ? 0.1 : -0.08; /* where other chunks are better */
		play(&player, &trace);
		check_bound(&player);
		most = player.ntables > most ? player.ntables : most;
		smd_tuning_destroy(&player.tuning);
	}
	assert_true(most > 36); /* so these were the bound, or near it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_traces_come_to_rest),
		cmocka_unit_test(made_up_traces_come_to_rest),
		cmocka_unit_test(one_that_is_late_is_left_out_and_taken_back),
		cmocka_unit_test(what_never_rests_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
