/* Chooses CollNet for the all-reduces that it makes faster, and keeps all else from it. */
#include "worker/nccl_plugin/collnet/tuner.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "reduction_server/base/hash.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/collnet/capacity.h"

/* specs/guide/nccl.md tells why: */
#define SERVERS_US     100.0        /* an all-reduce through servers, beyond its bytes */
#define MIN_BYTES_LESS (1ull << 20) /* where NCCL shows no costs */
#define LL_MAX_BYTES   65536        /* near where NCCL leaves LL in its model of a tree */
#define RING_BYTES     (256u << 10) /* a node: from so many on NCCL leaves a tree for a ring */

#define LINE_BYTES 320

/* What a tuner says: at its beginning, and of the servers. */
enum tuner_line { LINE_CHOICE, LINE_SERVERS, LINES };

struct smd_tuner {
	LIST_ENTRY(smd_tuner) link;
	uint64_t lines[LINES]; /* their hashes; 0: it has not come to that */
	bool told;          /* SUMMAND_NCCL_MIN_BYTES is set, */
	uint64_t min_bytes; /* and says from where on servers are used */
	double nranks;
	double nnodes;
	double networks;               /* of a node, of which CollNet has one and a ring all */
	double links;                  /* of a node's speed, that the servers have together, */
	struct smd_capacity *capacity; /* unless they say it; NULL: they are not asked */
	bool unsaid;                   /* nodes have several GPUs, and no variable says it */
	bool costs;                    /* whether NCCL shows them */
	bool heads;                    /* NVLS has some, so a chain may have none */
	bool weighed;                  /* what servers say has been compared, and said */
};

/* What goes through CollNet when there are several nodes: NVLS does between them. */
static const enum nccl_algorithm through_collnet[] = {
	NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN, NCCL_ALGO_NVLS};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, smd_tuner) tuners = LIST_HEAD_INITIALIZER(tuners);
static uint64_t last_line; /* whosever it was */

/* With the lock held. */
static bool was_said(uint64_t hash)
{
	const struct smd_tuner *tuner;

	LIST_FOREACH (tuner, &tuners, link) {
		for (int i = 0; i < LINES; i++) {
			if (tuner->lines[i] == hash) {
				return true;
			}
		}
	}
	return hash == last_line;
}

/* Whether nobody has said that whose communicator is there, nor who spoke last. */
static bool is_news(struct smd_tuner *tuner, enum tuner_line which, const char *line)
{
	uint64_t hash = smd_hash(SMD_HASH_SEED, line, strlen(line));
	bool news;

	pthread_mutex_lock(&lock);
	news = !was_said(hash);
	last_line = hash;
	if (tuner) {
		tuner->lines[which] = hash;
	}
	pthread_mutex_unlock(&lock);
	return news;
}

/* How often an operation's bytes cross the slowest link through servers, in the time in which all
 * of a node's links carry them once. */
static double crossings(const struct smd_tuner *tuner)
{
	double slowest = tuner->links < tuner->nnodes ? tuner->nnodes / tuner->links : 1.0;

	return slowest * tuner->networks;
}

/* The same, where that time is known. */
static double crossings_in(const struct smd_tuner *tuner, size_t bytes, double link_us)
{
	double mbps = tuner->capacity ? smd_capacity_mbps(tuner->capacity) : 0;
	double servers_us = mbps > 0 ? 8 * (double)bytes * tuner->nnodes / mbps : 0;

	if (mbps <= 0 || link_us <= 0) {
		return crossings(tuner);
	}
	return servers_us > link_us * tuner->networks ? servers_us / link_us : tuner->networks;
}

/* The same for a ring. */
static double ring_crossings(const struct smd_tuner *tuner)
{
	return 2 * (tuner->nranks - 1) / tuner->nranks;
}

/* With two nodes the servers have nothing to save, and two more hops. */
static bool can_win(const struct smd_tuner *tuner, double through_servers)
{
	return tuner->nnodes > 2 && !tuner->unsaid && through_servers < ring_crossings(tuner);
}

/* In lines of the log. */
#define SAY_LINKS                                                                                  \
	"nodes have several GPUs, so " SMD_TUNER_LINKS                                             \
	" must say what all servers carry and what a node does, like 400/100"

static bool lacks_links(const struct smd_tuner *tuner)
{
	return tuner->unsaid && tuner->nnodes > 2;
}

/* Why, in a line of the log. */
static const char *on_one(const struct smd_tuner *tuner)
{
	return tuner->networks > 1 ? ", by one of a node's networks," : "";
}

static bool use_servers(const struct smd_tuner *tuner, size_t bytes)
{
	return bytes >= tuner->min_bytes && (tuner->told || can_win(tuner, crossings(tuner)));
}

/* ---- NCCL 2.21, to which an algorithm must be named, as it shows no costs ---- */

/* It would follow a tuner even against these. */
static bool user_has_chosen(void)
{
	return getenv("NCCL_ALGO") || getenv("NCCL_PROTO");
}

/* Where a node has several GPUs, NCCL may have better ways inside of it. */
static bool names_all(const struct smd_tuner *tuner)
{
	return tuner->nranks == tuner->nnodes;
}

static size_t ring_min_bytes(const struct smd_tuner *tuner)
{
	return (size_t)tuner->nnodes * RING_BYTES;
}

static void describe_names(const struct smd_tuner *tuner, char *line, size_t size)
{
	if (user_has_chosen()) {
		snprintf(line, size,
			"tuner: every choice is NCCL's: NCCL_ALGO or NCCL_PROTO is set");
	} else if (use_servers(tuner, SIZE_MAX)) {
		snprintf(line, size,
			"tuner: CollNet for all-reduce from %llu bytes up%s; the rest is NCCL's",
			(unsigned long long)tuner->min_bytes,
			names_all(tuner) ? ", and not below, where it is tree or ring"
					 : "; below NCCL chooses, and may take it too");
	} else if (names_all(tuner)) {
		snprintf(line, size,
			"tuner: tree for all-reduce, ring from %zu bytes up: servers of %.3g links%s "
			"cannot be faster for %.0f nodes; SUMMAND_NCCL_MIN_BYTES=1M uses them all "
			"the same; the rest is NCCL's",
			ring_min_bytes(tuner), tuner->links, on_one(tuner), tuner->nnodes);
	} else if (lacks_links(tuner)) {
		snprintf(line, size,
			"tuner: every choice is NCCL's, and may be CollNet: " SAY_LINKS);
	} else {
		snprintf(line, size,
			"tuner: every choice is NCCL's, and may be CollNet, though servers of %.3g "
			"links cannot be faster for %.0f nodes",
			tuner->links, tuner->nnodes);
	}
}

/* ---- what it says ---- */

static void describe(const struct smd_tuner *tuner, char *line, size_t size)
{
	if (!tuner) {
		snprintf(line, size, "tuner: every choice is NCCL's");
	} else if (!tuner->costs) {
		describe_names(tuner, line, size);
	} else if (tuner->told) {
		snprintf(line, size,
			"tuner: CollNet for all-reduce from %llu bytes up, and not below; the rest "
			"is NCCL's",
			(unsigned long long)tuner->min_bytes);
	} else if (tuner->capacity && tuner->nnodes > 2) {
		snprintf(line, size,
			"tuner: CollNet for all-reduces that it makes faster, by NCCL's costs for "
			"%.0f nodes and what servers say that they carry; the rest is NCCL's",
			tuner->nnodes);
	} else if (can_win(tuner, crossings(tuner))) {
		snprintf(line, size,
			"tuner: CollNet for all-reduces that it makes faster, by NCCL's costs for "
			"%.0f nodes and servers of %.3g links; the rest is NCCL's",
			tuner->nnodes, tuner->links);
	} else if (lacks_links(tuner)) {
		snprintf(line, size,
			"tuner: every choice is NCCL's: " SAY_LINKS
			"; SUMMAND_NCCL_MIN_BYTES=1M uses them all the same");
	} else {
		snprintf(line, size,
			"tuner: every choice is NCCL's: servers of %.3g links%s cannot be faster for "
			"%.0f nodes; SUMMAND_NCCL_MIN_BYTES=1M uses them all the same",
			tuner->links, on_one(tuner), tuner->nnodes);
	}
}

/* Says what it does, and of what was set what cannot be read, where that is news. */
static void tell(struct smd_tuner *tuner, const char *size, const char *links)
{
	char line[LINE_BYTES];

	describe(tuner, line, sizeof(line));
	if (!is_news(tuner, LINE_CHOICE, line)) {
		return;
	}
	if (size) {
		smd_nccl_log_warn(SMD_TUNER_MIN_BYTES ": must be a size like 1M, got \"%s\"; it "
						      "is left to NCCL's costs",
			size);
	}
	if (links) {
		smd_nccl_log_warn(SMD_TUNER_LINKS
			": must be what all servers carry and what a node does, "
			"like 400/100, got \"%s\"; it is left out",
			links);
	}
	smd_nccl_log_info(NCCL_SUB_TUNING, "%s", line);
}

/* What is set, or NULL. */
static const char *variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

void smd_tuner_read(struct smd_tuner_settings *settings)
{
	const char *size = variable(SMD_TUNER_MIN_BYTES), *links = variable(SMD_TUNER_LINKS);

	*settings = (struct smd_tuner_settings){.sized = false};
	settings->sized = size && smd_parse_size(size, &settings->min_bytes) == 0;
	settings->linked = links && smd_parse_share(links, &settings->links) == 0;
	if (settings->linked) {
		uint32_t divisor = common_divisor(settings->links.part, settings->links.whole);

		settings->links.part /= divisor;
		settings->links.whole /= divisor;
	}
}

struct smd_tuner_servers smd_tuner_find_servers(const struct smd_config *config, int ndevices)
{
	return (struct smd_tuner_servers){
		.count = config->nservers,
		.networks = ndevices > 1 ? (unsigned)ndevices : 1,
		.list = smd_capacity_servers(config),
	};
}

/* Where each node has one GPU every rank is a node, and hears what servers carry. */
static bool hears_servers(const struct smd_tuner *tuner, const struct smd_tuner_settings *settings)
{
	return tuner->costs && tuner->nranks == tuner->nnodes && !settings->sized &&
	       !settings->linked;
}

/*
 * Where nodes have several GPUs a node's link is that of all of its cards, as fast as which no
 * server need be, and not every rank hears what servers carry.
 */
static bool links_are_unsaid(
	size_t nranks, size_t nnodes, const struct smd_tuner_settings *settings)
{
	return nranks != nnodes && !settings->linked;
}

/* A GPU's CollNet goes by one network card, while NCCL's rings go by all of a node's. */
static unsigned networks_beside(
	size_t nranks, size_t nnodes, const struct smd_tuner_servers *servers)
{
	return nranks == nnodes ? servers->networks : 1;
}

struct smd_tuner *smd_tuner_open(
	size_t nranks, size_t nnodes, const struct smd_tuner_servers *servers, bool costs)
{
	const char *size = variable(SMD_TUNER_MIN_BYTES), *links = variable(SMD_TUNER_LINKS);
	struct smd_tuner *tuner = servers->count && nnodes > 1 ? calloc(1, sizeof(*tuner)) : NULL;
	struct smd_tuner_settings settings;

	smd_tuner_read(&settings);
	if (tuner) {
		tuner->told = settings.sized;
		tuner->min_bytes = settings.sized ? settings.min_bytes : MIN_BYTES_LESS;
		tuner->nranks = (double)nranks;
		tuner->nnodes = (double)nnodes;
		tuner->links = settings.linked ? (double)settings.links.part / settings.links.whole
					       : servers->count;
		tuner->unsaid = links_are_unsaid(nranks, nnodes, &settings);
		tuner->networks = networks_beside(nranks, nnodes, servers);
		tuner->costs = costs;
		tuner->capacity =
			hears_servers(tuner, &settings) ? smd_capacity_get(servers->list) : NULL;
		pthread_mutex_lock(&lock);
		LIST_INSERT_HEAD(&tuners, tuner, link);
		pthread_mutex_unlock(&lock);
	}
	if (tuner || servers->count == 0) { /* one node is no news */
		tell(tuner, tuner && !settings.sized ? size : NULL,
			tuner && !settings.linked ? links : NULL);
	}
	return tuner;
}

void smd_tuner_close(struct smd_tuner *tuner)
{
	if (tuner) {
		pthread_mutex_lock(&lock);
		LIST_REMOVE(tuner, link);
		pthread_mutex_unlock(&lock);
		smd_capacity_put(tuner->capacity);
	}
	free(tuner);
}

static bool is_through_collnet(int algorithm)
{
	for (size_t i = 0; i < sizeof(through_collnet) / sizeof(through_collnet[0]); i++) {
		if (algorithm == (int)through_collnet[i]) {
			return true;
		}
	}
	return false;
}

static float *cost_of(float *costs, int nprotocols, int algorithm, int protocol)
{
	return costs + (size_t)algorithm * (size_t)nprotocols + (size_t)protocol;
}

/*
 * From 2.28.3 to 2.30.4 NCCL may take a chain where NVLS has been set up, whose heads are others:
 * the chain has no resources then (its change d6f72afe mends that). NVLS has a cost only for what
 * it can sum, which a float's average, for one, is not. CollNetDirect needs the same switches, and
 * has one for all.
 */
static void take_out_chain(struct smd_tuner *tuner, float *costs, int nalgorithms, int nprotocols)
{
	bool direct = *cost_of(costs, nprotocols, NCCL_ALGO_COLLNET_DIRECT, NCCL_PROTO_SIMPLE) >= 0;

	for (int a = NCCL_ALGO_NVLS; a <= NCCL_ALGO_NVLS_TREE && a < nalgorithms; a++) {
		tuner->heads |= *cost_of(costs, nprotocols, a, NCCL_PROTO_SIMPLE) >= 0;
	}
	if (direct || tuner->heads) {
		*cost_of(costs, nprotocols, NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE) =
			NCCL_COST_IGNORE;
	}
}

/* Which of the ways is decided inside of the nodes, by links and switches between GPUs. */
static void take_cheapest_way(float *costs, int nalgorithms, int nprotocols)
{
	float *least = NULL;

	for (int a = 0; a < nalgorithms; a++) {
		float *cost = cost_of(costs, nprotocols, a, NCCL_PROTO_SIMPLE);

		if (is_through_collnet(a) && *cost >= 0 && (!least || *cost < *least)) {
			least = cost;
		}
	}
	if (least) {
		*least = 0;
	}
}

/*
 * NCCL's cost of a ring holds what a link carries: 2 (n-1)/n of the operation in that time. NCCL
 * makes it dear where a ring would lose precision (float8); a tree takes a link twice, too.
 */
static double link_us(const struct smd_tuner *tuner, float *costs, int nprotocols)
{
	double ring = *cost_of(costs, nprotocols, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE);
	double tree = *cost_of(costs, nprotocols, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE);

	if (ring < 0) {
		return tree / 2;
	}
	ring /= ring_crossings(tuner);
	return tree >= 0 && tree / 2 < ring ? tree / 2 : ring;
}

/* Whether servers are faster than the best that NCCL has else. All ranks see the same costs. */
static bool pays(
	const struct smd_tuner *tuner, size_t bytes, float *costs, int nalgorithms, int nprotocols)
{
	double link = link_us(tuner, costs, nprotocols);
	double through_servers = crossings_in(tuner, bytes, link);
	double servers = SERVERS_US + link * through_servers;
	bool wins = can_win(tuner, through_servers);

	if (tuner->told) {
		return bytes >= tuner->min_bytes;
	}
	if (link < 0) { /* neither: by NCCL_ALGO, for one */
		return wins && bytes >= tuner->min_bytes;
	}
	for (int i = 0; wins && i < nalgorithms * nprotocols; i++) {
		wins = is_through_collnet(i / nprotocols) || costs[i] < 0 || servers < costs[i];
	}
	return wins;
}

/* NCCL believes a chain through CollNet to have hardly more latency than one hop of a ring, and any
 * way as fast as a node's link. */
static void take_no_way(float *costs, int nalgorithms, int nprotocols)
{
	bool others = false;

	for (int i = 0; i < nalgorithms * nprotocols; i++) {
		others |= !is_through_collnet(i / nprotocols) && costs[i] >= 0;
	}
	for (int i = 0; others && i < nalgorithms * nprotocols; i++) {
		if (is_through_collnet(i / nprotocols)) {
			costs[i] = NCCL_COST_IGNORE;
		}
	}
}

/* What they say is known when NCCL asks for the first time, and what a node's link carries only
 * then. */
static void tell_servers(struct smd_tuner *tuner, float *costs, size_t bytes, int nprotocols)
{
	double link = link_us(tuner, costs, nprotocols);
	uint32_t mbps = tuner->capacity ? smd_capacity_mbps(tuner->capacity) : 0;
	char line[LINE_BYTES];
	char carry[80];

	if (tuner->weighed || !tuner->capacity || tuner->nnodes <= 2 || link <= 0) {
		return;
	}
	tuner->weighed = true;
	if (can_win(tuner, crossings_in(tuner, bytes, link))) {
		return;
	}
	if (mbps) {
		snprintf(carry, sizeof(carry), "that carry %u Mbit/s%s", mbps, on_one(tuner));
	} else { /* nobody knows */
		snprintf(carry, sizeof(carry), "of %.3g links%s", tuner->links, on_one(tuner));
	}
	snprintf(line, sizeof(line),
		"tuner: every choice is NCCL's: servers %s cannot be faster for "
		"%.0f nodes; SUMMAND_NCCL_MIN_BYTES=1M uses them all the same",
		carry, tuner->nnodes);
	if (is_news(tuner, LINE_SERVERS, line)) {
		smd_nccl_log_info(NCCL_SUB_TUNING, "%s", line);
	}
}

/* What NCCL cannot use or may not, by NCCL_ALGO for one, has no cost. */
void smd_tuner_weigh(struct smd_tuner *tuner, int function, size_t bytes, float *costs,
	int nalgorithms, int nprotocols)
{
	if (!tuner || nprotocols <= NCCL_PROTO_SIMPLE || nalgorithms <= NCCL_ALGO_COLLNET_CHAIN) {
		return;
	}
	if (function != NCCL_FUNC_ALLREDUCE) { /* servers save nothing there */
		take_no_way(costs, nalgorithms, nprotocols);
		return;
	}
	take_out_chain(tuner, costs, nalgorithms, nprotocols);
	tell_servers(tuner, costs, bytes, nprotocols);
	if (pays(tuner, bytes, costs, nalgorithms, nprotocols)) {
		take_cheapest_way(costs, nalgorithms, nprotocols);
	} else {
		take_no_way(costs, nalgorithms, nprotocols);
	}
}

/*
 * NCCL 2.21 takes an answer as it is; it does not say whether there are the switches that
 * CollNetDirect needs. Left alone it may take a chain for what is not for servers.
 */
void smd_tuner_name(
	const struct smd_tuner *tuner, int function, size_t bytes, int *algorithm, int *protocol)
{
	if (!tuner || function != NCCL_FUNC_ALLREDUCE || user_has_chosen()) {
		return;
	}
	if (use_servers(tuner, bytes)) {
		*algorithm = NCCL_ALGO_COLLNET_CHAIN;
		*protocol = NCCL_PROTO_SIMPLE;
	} else if (names_all(tuner)) {
		*algorithm = bytes >= ring_min_bytes(tuner) ? NCCL_ALGO_RING : NCCL_ALGO_TREE;
		*protocol = bytes <= LL_MAX_BYTES ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE;
	}
}
