/* Has rank 0 want other tables: by what it has measured, or drawn at random; and small operations be
 * large ones. */
#include "tests/simulation/virtual_time.h"
#include "tests/simulation/world.h"
#include "worker/libsummand/history.h"
#include "worker/libsummand/pressure.h"
#include "worker/libsummand/tuning.h"

bool __real_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

/* Any of them but one. */
static void leave_servers_out(struct smd_tuning *tuning)
{
	unsigned stays = tuning->shards[virtual_draw(tuning->nshards)].server;
	uint64_t without = virtual_draw(1ull << (SERVERS_MAX + ADDED_MAX)) &
			   tuning->servers.may_leave & ~(1ull << stays);

	for (unsigned s = 0; s < tuning->nshards; s++) {
		if (without >> tuning->shards[s].server & 1) {
			tuning->weights[s] = 0;
		}
	}
	tuning->cause = SMD_TUNING_SERVERS;
	tuning->servers.wanted = without;
}

/* What rank 0 has measured, or what is drawn instead. */
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	unsigned changes = world.aftermath.decided ? 5 * world.plan.changes
						   : world.plan.changes; /* to see it settle */

	if (world.plan.measured) {
		bool wants = __real_smd_tuning_want(tuning, now_ns);

		world.nmeasured += wants;
		return wants;
	}
	if (changes == 0 || virtual_draw(changes)) {
		return false;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	tuning->scale = (int)virtual_draw(SMD_CHUNK_SCALE_MOST - SMD_CHUNK_SCALE_LEAST + 1) +
			SMD_CHUNK_SCALE_LEAST;
	tuning->search.wanted = tuning->scale;
	for (unsigned s = 0; s < tuning->nshards; s++) {
		tuning->weights[s] = 1 + (uint32_t)virtual_draw(100);
		if (world.plan.spares && s > 0 && tuning->weights[s] % 2 &&
			tuning->shards[s].server == tuning->shards[s - 1].server) {
			tuning->weights[s] = 0;
		}
	}
	if (world.plan.leaves_out) {
		leave_servers_out(tuning);
	}
	return true;
}

uint64_t __wrap_smd_pressure_waited_ns(void);

/* Instead of this machine's. */
uint64_t __wrap_smd_pressure_waited_ns(void)
{
	return virtual_now_ns() / 100 * world.plan.waited;
}

bool __real_smd_history_takes(const struct smd_deal *deal, unsigned nranks, size_t bytes);
bool __wrap_smd_history_takes(const struct smd_deal *deal, unsigned nranks, size_t bytes);

/* Histories have no room for those of a model's size, which ranks leave together. */
bool __wrap_smd_history_takes(const struct smd_deal *deal, unsigned nranks, size_t bytes)
{
	return __real_smd_history_takes(
		deal, nranks, world.plan.larger ? bytes * world.plan.larger : bytes);
}
