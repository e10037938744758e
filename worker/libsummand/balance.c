/* Compares how long shards take for their shares, and moves weight from the late to the early. */
#include "worker/libsummand/balance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define UNEQUAL       1.05 /* the last shard's time to the mean: more is worth a step, */
#define EARLY         0.8 /* the first one's time to the mean: it is always that one's turn to get more */
#define FAR           0.3  /* when verdicts in a row on the same shard say that much more in all */
#define STEP_POWER    0.75 /* of what would be right if others stayed as they are */
#define STEP_MOST     1.41 /* what a weight changes by: to another, by twice that at most, */
#define STEP_LEAST    1.05 /* and where steps go to and fro, by less and less, down to this */
#define NEAR          1.5  /* the last one's time to another's: less is looked at with care */
#define STEPS_MOST    8u   /* at once, and then one for each */
#define STEP_EVERY_NS (10 * SMD_SECOND_NS)
#define GAP_NS        (SMD_SECOND_NS * 3 / 10) /* between two */
#define KEPT          0.5                      /* of what was promised, or the step is taken back */
#define SAVED         0.1 /* of the time, by one that went too far, or it is too */
#define PAUSE_NS      (2 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (60 * SMD_SECOND_NS)
#define DRIFTED       1.3 /* the last one's time to the mean, to what it was: no pause any more */

int smd_balance_create(
	struct smd_balance *balance, const uint32_t *weights, unsigned nshards, uint64_t now_ns)
{
	*balance = (struct smd_balance){
		.nshards = nshards,
		.shards = calloc(nshards, sizeof(*balance->shards)),
		.steps = STEPS_MOST,
		.steps_at_ns = now_ns,
		.next_ns = now_ns,
		.pause_ns = PAUSE_NS,
		.most = STEP_MOST,
	};
	if (!balance->shards) {
		return -ENOMEM;
	}
	for (unsigned s = 0; s < nshards; s++) {
		balance->shards[s].weight = weights[s];
		balance->shards[s].before = weights[s];
	}
	return 0;
}

void smd_balance_destroy(struct smd_balance *balance)
{
	free(balance->shards);
	balance->shards = NULL;
}

void smd_balance_slice(struct smd_balance *balance, unsigned shard, uint64_t bytes, uint64_t ns)
{
	struct smd_balance_shard *one = &balance->shards[shard];

	if (bytes) {
		one->samples[one->nsamples++ % SMD_BALANCE_SAMPLES] = (double)ns / (double)bytes;
	}
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

static double sample_at(const struct smd_balance_shard *shard, unsigned place)
{
	double sorted[SMD_BALANCE_SAMPLES];

	memcpy(sorted, shard->samples, sizeof(sorted));
	qsort(sorted, SMD_BALANCE_SAMPLES, sizeof(sorted[0]), compare);
	return sorted[place];
}

/* ns per byte of its own: one slice that was disturbed does not count. */
static double cost_of(const struct smd_balance_shard *shard)
{
	return sample_at(shard, SMD_BALANCE_SAMPLES / 2);
}

/* What it costs at least: most of its slices say more. And at most. */
static double least_cost_of(const struct smd_balance_shard *shard)
{
	return sample_at(shard, 1);
}

static double most_cost_of(const struct smd_balance_shard *shard)
{
	return sample_at(shard, SMD_BALANCE_SAMPLES - 2);
}

static bool has_samples(const struct smd_balance *balance)
{
	for (unsigned s = 0; s < balance->nshards; s++) {
		if (balance->shards[s].nsamples < SMD_BALANCE_SAMPLES) {
			return false;
		}
	}
	return true;
}

void smd_balance_forget(struct smd_balance *balance)
{
	for (unsigned s = 0; s < balance->nshards; s++) {
		balance->shards[s].nsamples = 0;
	}
}

/* Finishing times, for one byte through the whole table. */
struct finish {
	double mean;
	double last;
	unsigned last_one;
	double surely_last; /* with as much luck as its slices scatter, */
	unsigned late;      /* and which one that is */
	double surely_first;
	unsigned early;
};

static double sum_weights(const struct smd_balance *balance)
{
	double sum = 0;

	for (unsigned s = 0; s < balance->nshards; s++) {
		sum += balance->shards[s].weight;
	}
	return sum;
}

static struct finish finish_of(const struct smd_balance *balance, bool wanted)
{
	struct finish finish = {.surely_first = INFINITY};
	double sum = 0;

	for (unsigned s = 0; s < balance->nshards; s++) {
		sum += wanted ? balance->shards[s].wanted : balance->shards[s].weight;
	}
	for (unsigned s = 0; s < balance->nshards; s++) {
		const struct smd_balance_shard *shard = &balance->shards[s];
		double share = (wanted ? shard->wanted : shard->weight) / sum;
		double time = share * cost_of(shard);

		finish.mean += time / balance->nshards;
		if (time > finish.last) {
			finish.last = time;
			finish.last_one = s;
		}
		if (share * least_cost_of(shard) > finish.surely_last) {
			finish.surely_last = share * least_cost_of(shard);
			finish.late = s;
		}
		if (share * most_cost_of(shard) < finish.surely_first) {
			finish.surely_first = share * most_cost_of(shard);
			finish.early = s;
		}
	}
	return finish;
}

bool smd_balance_is_stuck(struct smd_balance *balance, unsigned *shard, double *last)
{
	bool stuck = balance->stuck_last > 0;

	*shard = balance->stuck;
	*last = balance->stuck_last;
	balance->stuck_last = 0;
	return stuck;
}

static void forget_verdicts(struct smd_balance *balance)
{
	balance->late.unequal = 0;
	balance->early.unequal = 0;
}

static uint32_t limit_weight(double weight)
{
	return (uint32_t)lround(fmin(fmax(weight, 1), UINT32_MAX / 4));
}

/* The last step gave it more. */
static bool has_more(const struct smd_balance *balance, unsigned shard)
{
	return balance->shards[shard].weight > balance->shards[shard].before;
}

/* A shard that rests until the others are done seems faster than it is, as its link may carry at
 * once what it has saved: so a step may go too far, and the next one, back, half as far. */
static double limit_step(const struct smd_balance *balance, unsigned late, uint64_t now_ns)
{
	double most = balance->most;

	if (now_ns - balance->stepped_ns >= STEP_EVERY_NS) {
		return STEP_MOST;
	}
	return has_more(balance, late) ? fmax(sqrt(most), STEP_LEAST)
				       : fmin(most * most, STEP_MOST);
}

/*
 * What the shard takes for its share, for a byte through the whole table: where it is not much less
 * than what the last one takes, it is taken for half as much less, as what it is seen to take
 * scatters most there, and it seems faster than it is.
 */
static double careful_time(const struct smd_balance *balance, unsigned shard, double last)
{
	double time = balance->shards[shard].weight / sum_weights(balance) *
		      cost_of(&balance->shards[shard]);

	return time * NEAR > last ? (time + last) / 2 : time;
}

/* Less than what would be right now: what a shard takes changes with the others' shares too. */
static void plan_step(struct smd_balance *balance, double last, double most)
{
	double mean = 0;

	for (unsigned s = 0; s < balance->nshards; s++) {
		mean += careful_time(balance, s, last) / balance->nshards;
	}
	for (unsigned s = 0; s < balance->nshards; s++) {
		struct smd_balance_shard *shard = &balance->shards[s];
		double step = pow(mean / careful_time(balance, s, last), STEP_POWER);

		step = fmin(fmax(step, 1 / most), most);
		shard->wanted = limit_weight(shard->weight * step);
	}
}

static void take_back(struct smd_balance *balance, const struct finish *now)
{
	const struct smd_balance_shard *late = &balance->shards[now->last_one];

	if (late->weight < late->before) {
		balance->stuck = now->last_one;
		balance->stuck_last = now->last / now->mean;
	}
	for (unsigned s = 0; s < balance->nshards; s++) {
		balance->shards[s].wanted = balance->shards[s].before;
	}
}

/* Whether the step that is on trial is to be taken back. Where one that got more is the last one
 * now, it went too far: then a tenth of the time is enough. */
static bool has_failed(const struct smd_balance *balance, const struct finish *now)
{
	double least = KEPT * balance->promised;

	if (has_more(balance, now->last_one)) {
		least = fmin(least, SAVED);
	}
	return balance->on_trial && 1 - now->last / balance->cost < least;
}

static bool may_step(struct smd_balance *balance, uint64_t now_ns)
{
	while (balance->steps < STEPS_MOST && now_ns - balance->steps_at_ns >= STEP_EVERY_NS) {
		balance->steps++;
		balance->steps_at_ns += STEP_EVERY_NS;
	}
	if (balance->steps == STEPS_MOST) {
		balance->steps_at_ns = now_ns;
	}
	return balance->steps > 0 && now_ns - balance->stepped_ns >= GAP_NS;
}

/* After a step that was taken back, until something has surely changed. */
static bool pauses(struct smd_balance *balance, const struct finish *now, uint64_t now_ns)
{
	if (now_ns >= balance->next_ns) {
		return false;
	}
	if (now->surely_last < DRIFTED * balance->unequal * now->mean) {
		return true;
	}
	balance->pause_ns = PAUSE_NS;
	return false;
}

/* Whether this verdict makes it enough for a step. */
static bool is_far(struct smd_balance_verdicts *verdicts, unsigned shard, double unequal)
{
	if (unequal < UNEQUAL) {
		verdicts->unequal = 0;
		return false;
	}
	verdicts->unequal = unequal - 1 + (shard == verdicts->shard ? verdicts->unequal : 0);
	verdicts->shard = shard;
	return verdicts->unequal >= FAR;
}

/* Where one is surely done before the others, the last of these may be another one each time. */
static bool is_uneven(struct smd_balance *balance, const struct finish *now)
{
	double unequal = now->surely_last / now->mean;
	bool early = now->surely_first <= EARLY * now->mean;
	bool far = is_far(&balance->late, now->late, unequal);

	return is_far(&balance->early, now->early, early ? unequal : 1) || far;
}

bool smd_balance_want(struct smd_balance *balance, uint64_t now_ns)
{
	struct finish now;
	struct finish then;

	if (balance->nshards < 2 || !has_samples(balance) || !may_step(balance, now_ns)) {
		return false;
	}
	now = finish_of(balance, false);
	if (pauses(balance, &now, now_ns)) {
		return false;
	}
	if (has_failed(balance, &now)) {
		take_back(balance, &now);
		balance->wanted_most = balance->most;
		return true;
	}
	if (balance->on_trial) {
		balance->on_trial = false;
		balance->pause_ns =
			balance->pause_ns / 2 > PAUSE_NS ? balance->pause_ns / 2 : PAUSE_NS;
	}
	if (!is_uneven(balance, &now)) {
		smd_balance_forget(balance);
		return false;
	}
	balance->wanted_most = limit_step(balance, now.last_one, now_ns);
	plan_step(balance, now.last, balance->wanted_most);
	then = finish_of(balance, true);
	balance->unequal = now.last / now.mean;
	balance->cost = now.last;
	balance->promised = 1 - then.last / now.last;
	return true;
}

void smd_balance_use(struct smd_balance *balance, const uint32_t *weights, unsigned nshards)
{
	for (unsigned s = 0; s < nshards; s++) {
		balance->shards[s].weight = weights[s];
		balance->shards[s].before = weights[s];
	}
	balance->nshards = nshards;
	balance->most = STEP_MOST;
	balance->on_trial = false;
	balance->stuck_last = 0;
	forget_verdicts(balance);
	smd_balance_forget(balance);
}

uint32_t smd_balance_scaled(const struct smd_balance_shard *shard, double factor)
{
	return limit_weight(shard->weight * factor);
}

void smd_balance_scale(struct smd_balance *balance, double factor)
{
	for (unsigned s = 0; s < balance->nshards; s++) {
		balance->shards[s].weight = smd_balance_scaled(&balance->shards[s], factor);
		balance->shards[s].before = balance->shards[s].weight;
	}
	balance->on_trial = false;
	forget_verdicts(balance);
	smd_balance_forget(balance);
}

void smd_balance_applied(struct smd_balance *balance, uint64_t now_ns)
{
	bool back = balance->on_trial;

	for (unsigned s = 0; s < balance->nshards; s++) {
		struct smd_balance_shard *shard = &balance->shards[s];

		shard->before = shard->weight;
		shard->weight = shard->wanted;
	}
	balance->on_trial = !back;
	balance->most = balance->wanted_most;
	balance->stepped_ns = now_ns;
	forget_verdicts(balance);
	balance->steps--;
	balance->next_ns =
		now_ns + (back ? smd_backoff_next(&balance->pause_ns, PAUSE_MOST_NS) : 0);
	smd_balance_forget(balance);
}
