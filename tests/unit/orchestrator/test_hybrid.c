/* Shares of reducers on workers' hosts: with them all links are busy for the same time, for every n and k. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "orchestrator/job/hybrid.h"

#define WORKERS_MAX 40
#define MBPS        1000

static struct smd_share share_of(int workers, int servers)
{
	return smd_hybrid_share(&(struct smd_hybrid){
		workers, MBPS, servers, (uint64_t)servers * MBPS});
}

static void assert_near(double a, double b)
{
	assert_true(fabs(a - b) < 1e-9);
}

/* As BytePS has them: per server 2(n-1) / (n^2 + kn - 2k) M, per worker host (n-k) of that. */
static void shares_are_the_formulas(void **state)
{
	(void)state;
	for (int n = 2; n <= WORKERS_MAX; n++) {
		for (int k = 1; k < n; k++) {
			struct smd_share share = share_of(n, k);
			double ratio = (double)share.part / share.whole;
			double server = 1 / (k + n * ratio);
			double worker = ratio * server;
			double all = n * n + k * n - 2 * k;

			assert_near(server, 2 * (n - 1) / all);
			assert_near(worker, (n - k) / all);
			/* Each link, in the direction that has the most to carry. */
			assert_near(n * server, smd_hybrid_time(n, k));
			assert_near(1 + (n - 2) * worker, smd_hybrid_time(n, k));
		}
	}
}

static void shares_are_in_lowest_terms(void **state)
{
	struct smd_share share = share_of(8, 3);

	(void)state;
	assert_int_equal(share.part, 5);
	assert_int_equal(share.whole, 14);
	share = share_of(4, 2);
	assert_int_equal(share.part, 1);
	assert_int_equal(share.whole, 3);
	share = share_of(8, 7);
	assert_int_equal(share.part, 1);
	assert_int_equal(share.whole, 14);
}

static void no_server_is_as_good_as_a_ring(void **state)
{
	(void)state;
	for (int n = 2; n <= WORKERS_MAX; n++) {
		assert_near(smd_hybrid_time(n, 0), 2.0 * (n - 1) / n);
		assert_int_not_equal(share_of(n, 0).part, 0);
	}
}

static void as_many_servers_as_workers_are_enough(void **state)
{
	(void)state;
	for (int n = 1; n <= WORKERS_MAX; n++) {
		for (int k = n; k < n + 3; k++) {
			assert_near(smd_hybrid_time(n, k), 1);
			assert_int_equal(share_of(n, k).part, 0);
		}
	}
	assert_int_equal(share_of(1, 0).part, 0);
}

static void another_server_is_never_a_loss(void **state)
{
	(void)state;
	for (int n = 3; n <= WORKERS_MAX; n++) {
		for (int k = 0; k < n; k++) {
			assert_true(smd_hybrid_time(n, k + 1) < smd_hybrid_time(n, k));
			assert_true(smd_hybrid_time(n, k) <= (k ? (double)n / k : n));
		}
	}
}

/* Servers of half the rate count half, and get half. */
static void rates_count(void **state)
{
	/* nB - S = 40000 - 20000, 2(n-1)b = 6 * 5000. */
	struct smd_share share = smd_hybrid_share(&(struct smd_hybrid){4, 10000, 4, 20000});

	(void)state;
	assert_int_equal(share.part, 2);
	assert_int_equal(share.whole, 3);
	share = smd_hybrid_share(&(struct smd_hybrid){4, 10000, 1, 40000});
	assert_int_equal(share.part, 0);
	/* A reducer may get more than a slow server. */
	share = smd_hybrid_share(&(struct smd_hybrid){2, 100000, 1, 10000});
	assert_int_equal(share.part, 19);
	assert_int_equal(share.whole, 2);
}

static void terms_stay_small(void **state)
{
	struct smd_hybrid hybrid = {100003, 99999989, 99991, 10007};
	struct smd_share share = smd_hybrid_share(&hybrid);
	double exact = ((double)hybrid.workers * hybrid.worker_mbps - hybrid.servers_mbps) * hybrid.servers /
		       (2.0 * (hybrid.workers - 1) * hybrid.servers_mbps);

	(void)state;
	assert_in_range(share.part, 1, SMD_SHARE_TERM_MAX);
	assert_in_range(share.whole, 1, SMD_SHARE_TERM_MAX);
	assert_true(exact > SMD_SHARE_TERM_MAX / 2 || fabs((double)share.part / share.whole / exact - 1) < 0.01);
	hybrid = (struct smd_hybrid){7, 24989, 3, 30011};
	share = smd_hybrid_share(&hybrid);
	assert_true(fabs((double)share.part / share.whole - (7.0 * 24989 - 30011) * 3 / (12.0 * 30011)) < 1e-4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_the_formulas),
		cmocka_unit_test(shares_are_in_lowest_terms),
		cmocka_unit_test(no_server_is_as_good_as_a_ring),
		cmocka_unit_test(as_many_servers_as_workers_are_enough),
		cmocka_unit_test(another_server_is_never_a_loss),
		cmocka_unit_test(rates_count),
		cmocka_unit_test(terms_stay_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
