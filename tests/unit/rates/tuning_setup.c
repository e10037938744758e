/* Begins tuning as its tests have it. */
#include "tests/unit/rates/tuning_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"

uint64_t tuning_waited_ns;

uint64_t __wrap_smd_pressure_waited_ns(void);

uint64_t __wrap_smd_pressure_waited_ns(void)
{
	return tuning_waited_ns;
}

void tuning_start(struct smd_tuning *tuning, uint32_t first, uint32_t second, int scale)
{
	const struct smd_tuning_shard shards[] = {
		{0, first, true, 0, false}, {1, second, true, 0, false}};

	assert_int_equal(smd_tuning_create(tuning, 4, shards, 2, scale, SMD_SECOND_NS), 0);
}

void tuning_slices(struct smd_tuning *tuning, unsigned chunks, const unsigned ms[2])
{
	for (unsigned s = 0; s < 2; s++) {
		smd_tuning_slice(tuning, s, chunks, BYTES, (uint64_t)ms[s] * MS);
	}
}
