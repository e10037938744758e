/* Shares and times where workers' hosts reduce too. */
#include "orchestrator/job/hybrid.h"

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Unlike rates may have large terms: these are rounded. */
static struct smd_share share_of(uint64_t part, uint64_t whole)
{
	uint64_t divisor = common_divisor(part, whole);

	part /= divisor;
	whole /= divisor;
	while (part > SMD_SHARE_TERM_MAX || whole > SMD_SHARE_TERM_MAX) {
		part = part > 1 ? part / 2 : 1;
		whole = whole > 1 ? whole / 2 : 1;
	}
	return (struct smd_share){(uint32_t)part, (uint32_t)whole};
}

struct smd_share smd_hybrid_share(const struct smd_hybrid *hybrid)
{
	uint64_t workers = (uint64_t)hybrid->workers;
	uint64_t all = workers * hybrid->worker_mbps;

	if (hybrid->workers < 2 || hybrid->servers_mbps >= all) {
		return (struct smd_share){0, 1};
	}
	if (hybrid->servers == 0) {
		return share_of(workers, 2 * (workers - 1));
	}
	return share_of((all - hybrid->servers_mbps) * (uint64_t)hybrid->servers,
		2 * (workers - 1) * hybrid->servers_mbps);
}

double smd_hybrid_time(int workers, double servers)
{
	double n = workers;

	return workers < 2 || servers >= n ? 1 : 2 * n * (n - 1) / (n * n + (n - 2) * servers);
}
