/* Makes the table of a wish: which weight each shard has in it, and how chunks are cut. */
#include "worker/libsummand/tuning_table.h"

#include <math.h>

unsigned smd_tuning_list_places(struct smd_tuning *tuning)
{
	unsigned places = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		if (tuning->shards[s].weight) {
			tuning->placed[places++] = tuning->shards[s].weight;
		}
	}
	return places;
}

double smd_tuning_sum_weights(const struct smd_tuning *tuning)
{
	double sum = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		sum += tuning->shards[s].weight;
	}
	return sum;
}

static uint32_t weight_at(const struct smd_tuning *tuning, unsigned place)
{
	const struct smd_balance_shard *one = &tuning->balance.shards[place];

	switch (tuning->cause) {
	case SMD_TUNING_RATES:
		return smd_balance_scaled(one, tuning->factor);
	case SMD_TUNING_WEIGHTS:
		return one->wanted;
	default:
		return one->weight;
	}
}

static double mean_of_others(const struct smd_tuning *tuning, unsigned server)
{
	double sum = 0;
	unsigned n = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		if (tuning->shards[s].server != server && tuning->shards[s].weight) {
			sum += tuning->shards[s].weight;
			n++;
		}
	}
	return n ? sum / n : 1;
}

/* Servers of which one shard alone is used in the table that is made. */
static uint64_t becomes_single(const struct smd_tuning *tuning)
{
	return tuning->cause == SMD_TUNING_RATES ? tuning->choice.single | tuning->sure
						 : tuning->choice.wanted;
}

/* What the shard should have when its server is back: what it had, or as spare what it declares, by
 * what all others have now. */
static double returning_weight(const struct smd_tuning *tuning, unsigned shard)
{
	unsigned server = tuning->shards[shard].server;

	if (tuning->servers.spare >> server & 1) {
		return tuning->shards[shard].spare * smd_tuning_sum_weights(tuning) /
		       tuning->first_sum;
	}
	return tuning->parts[shard] * mean_of_others(tuning, server) *
	       smd_server_choice_part(&tuning->servers, server);
}

/* What its server has, or had when it was left out, goes to its first shard, or is divided among
 * all of them. */
static uint32_t choose_weight(const struct smd_tuning *tuning, unsigned shard, bool returns)
{
	unsigned server = tuning->shards[shard].server;
	double factor = tuning->cause == SMD_TUNING_RATES ? tuning->factor : 1;
	double sum = 0;
	unsigned before = 0;
	unsigned n = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		if (tuning->shards[s].server == server) {
			sum += returns ? returning_weight(tuning, s)
				       : tuning->shards[s].weight * factor;
			before += s < shard;
			n++;
		}
	}
	if ((returns ? tuning->choice.single : becomes_single(tuning)) >> server & 1) {
		sum = before ? 0 : fmin(fmax(sum, 1), INT32_MAX);
		return (uint32_t)sum;
	}
	return (uint32_t)fmin(fmax(sum / n, 1), INT32_MAX);
}

/* Whose shards are not the same as before. */
static bool changes_shards(const struct smd_tuning *tuning, unsigned server)
{
	return (tuning->cause == SMD_TUNING_SHARDS || tuning->cause == SMD_TUNING_RATES) &&
	       ((becomes_single(tuning) ^ tuning->choice.single) >> server & 1) &&
	       !(tuning->servers.without >> server & 1);
}

/* Which is there, or is not, from then on. */
static bool changes_server(const struct smd_tuning *tuning, unsigned server)
{
	return tuning->cause == SMD_TUNING_SERVERS &&
	       ((tuning->servers.wanted ^ tuning->servers.without) >> server & 1);
}

static int scale_of(const struct smd_tuning *tuning)
{
	switch (tuning->cause) {
	case SMD_TUNING_RATES: /* what was found before was for other rates */
		return tuning->back     ? tuning->trial.scale
		       : tuning->doubts ? tuning->trial.kept_scale
					: 0;
	case SMD_TUNING_CHUNKS:
		return tuning->search.wanted;
	default:
		return tuning->search.scale;
	}
}

void smd_tuning_make_table(struct smd_tuning *tuning)
{
	unsigned place = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		const struct smd_tuning_shard *one = &tuning->shards[s];

		if (tuning->back) {
			tuning->weights[s] = tuning->before[s];
		} else if (changes_server(tuning, one->server)) {
			tuning->weights[s] = tuning->servers.wanted >> one->server & 1
						     ? 0
						     : choose_weight(tuning, s, true);
		} else if (changes_shards(tuning, one->server)) {
			tuning->weights[s] = choose_weight(tuning, s, false);
		} else {
			tuning->weights[s] = one->weight ? weight_at(tuning, place) : 0;
		}
		place += one->weight != 0;
	}
	tuning->scale = scale_of(tuning);
}

void smd_tuning_keep_parts(struct smd_tuning *tuning)
{
	for (unsigned s = 0; s < tuning->nshards; s++) {
		unsigned server = tuning->shards[s].server;

		if (tuning->servers.wanted >> server & 1 & ~(tuning->servers.without >> server)) {
			tuning->parts[s] =
				tuning->shards[s].weight / mean_of_others(tuning, server);
		}
	}
}
