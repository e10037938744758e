/*
 * What rank 0 asks for is refused where a shard has no memory for other streams, and is not asked
 * for with every operation then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/tuning.h"

enum { BYTES = 1 << 20, MS = 1000000 };

/* Operations of 1 ms for so long; how often another table was wanted, and each time refused. */
static unsigned run(struct smd_tuning *tuning, uint64_t *now_ns, unsigned operations)
{
	unsigned wanted = 0;

	for (unsigned i = 0; i < operations; i++) {
		smd_tuning_begin(tuning, BYTES, *now_ns);
		*now_ns += MS;
		smd_tuning_end(tuning, *now_ns);
		if (smd_tuning_want(tuning, *now_ns)) {
			wanted++;
			smd_tuning_refused(tuning, *now_ns);
		}
	}
	return wanted;
}

static void what_is_refused_rests(void **state)
{
	const uint32_t weights[] = {10000, 10000};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, weights, 2, 0, now), 0);
	assert_int_equal(run(&tuning, &now, 900), 1);
	assert_int_equal(run(&tuning, &now, 1000), 1); /* after a second, */
	assert_int_equal(run(&tuning, &now, 1000), 0); /* and then after two */
	smd_tuning_destroy(&tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
