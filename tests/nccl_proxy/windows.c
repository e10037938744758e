/*
 * All-gather and reduce-scatter, in windows that cut across ranks, of parts that lie apart.
 *
 * NCCL cuts a collective of nranks * bytes_per_rank into windows. What one rank has of a window, to
 * give or to get, begins at the address that is passed, wherever in its share that is.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/pattern.h"
#include "tests/nccl_proxy/proxy.h"
#include "tests/nccl_proxy/scenarios.h"
#include "tests/nccl_proxy/servers.h"

#define SHARE      72000 /* bytes_per_rank: whole elements of every type; two are enough for a loop of their own */
#define SLOT_BYTES ((size_t)256 << 10)
#define GAP        64 /* between parts */
#define UNTOUCHED  0xee
#define PARTS_MAX  3

struct window {
	size_t offset;
	size_t bytes;
	int nparts;
};

static const struct window windows[] = {
	{0, 3 * (size_t)SHARE, 1},                 /* all */
	{0, SHARE, 1},                             /* one rank's share */
	{SHARE, 2 * (size_t)SHARE, 2},             /* two shares */
	{SHARE - 8, 16, 1},                        /* the end of one and the beginning of another */
	{SHARE / 3, 5 * (size_t)SHARE / 3, 3},     /* the end, a whole one */
	{2 * SHARE / 3, 2 * (size_t)SHARE, 3},     /* the end, a whole one, the beginning */
	{SHARE + 8, 800, 2},                       /* inside */
	{3 * (size_t)SHARE - 8, 8, 1},             /* the last element */
	{2 * (size_t)SHARE - 4096, 4096 + 512, 3}, /* and once more at an edge */
};

enum { WINDOWS = sizeof(windows) / sizeof(windows[0]) };

static size_t at_least(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t at_most(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* What of the window is in the rank's share: [*begin, *end) of the whole, perhaps nothing. */
static void intersect(const struct window *window, int rank, size_t *begin, size_t *end)
{
	*begin = at_least(window->offset, (size_t)rank * SHARE);
	*end = at_most(window->offset + window->bytes, ((size_t)rank + 1) * SHARE);
	*end = at_least(*end, *begin);
}

/* Parts of uneven sizes, of whole elements, with gaps between them. */
static void lay_out(const struct window *window, unsigned char *base, void *mhandle,
	struct nccl_sge_v9 parts[PARTS_MAX])
{
	size_t left = window->bytes;

	for (int i = 0; i < window->nparts; i++) {
		bool last = i == window->nparts - 1;

		parts[i].mhandle = mhandle;
		parts[i].address = base;
		parts[i].size = last ? left : left / 3 / 8 * 8;
		base += parts[i].size + GAP;
		left -= parts[i].size;
	}
}

static bool is_done(const struct proxy *proxy, void *request)
{
	int done = 1;

	CHECK_EQUAL(COLLNET_CALL(proxy->collnet, test, request, &done, NULL), NCCL_SUCCESS);
	return done;
}

/* Waits for all in flight, the last one first. */
static void wait_all(const struct proxy *proxy, void **requests)
{
	for (bool busy = true; busy; sched_yield()) {
		busy = false;
		for (int w = WINDOWS - 1; w >= 0; w--) {
			if (requests[w] && is_done(proxy, requests[w])) {
				requests[w] = NULL;
			}
			busy |= requests[w] != NULL;
		}
	}
}

/* ---- all-gather ---- */

/* In place: what the rank has lies already where it belongs in the whole, if that is one part. */
static void *start_gather(struct proxy *proxy, int w, bool in_place)
{
	const struct window *window = &windows[w];
	enum proxy_side side = PROXY_SEND;
	unsigned char *send = proxy_slot(proxy, PROXY_SEND, (unsigned)w);
	unsigned char *recv = proxy_slot(proxy, PROXY_RECEIVE, (unsigned)w);
	struct nccl_sge_v9 parts[PARTS_MAX];
	void *request = NULL;
	size_t begin;
	size_t end;

	fleet_doing("iallgather of window %d", w);
	intersect(window, proxy->rank, &begin, &end);
	memset(send, 0x33, SLOT_BYTES);
	memset(recv, UNTOUCHED, SLOT_BYTES);
	if (in_place && window->nparts == 1 && end > begin) {
		side = PROXY_RECEIVE;
		send = recv + (begin - window->offset);
	}
	pattern_fill(send, NCCL_UINT8, begin, end - begin, proxy->rank, (uint64_t)w);
	lay_out(window, recv, proxy->mhandles[PROXY_RECEIVE], parts);
	CHECK_EQUAL(collnet_iallgather(proxy->collnet, proxy->coll, send, window->nparts, parts,
			    SHARE, window->offset, window->bytes, proxy->mhandles[side], &request),
		NCCL_SUCCESS);
	return request;
}

static void check_gather(const struct proxy *proxy, int w)
{
	static unsigned char wanted[FLEET_NODES_MAX * SHARE];
	const struct window *window = &windows[w];
	struct nccl_sge_v9 parts[PARTS_MAX];
	unsigned char *behind = NULL;
	size_t at = 0;

	fleet_doing("check of gathered window %d", w);
	for (int r = 0; r < proxy->nranks; r++) {
		size_t begin;
		size_t end;

		intersect(window, r, &begin, &end);
		if (end > begin) {
			pattern_fill(wanted + begin - window->offset, NCCL_UINT8, begin,
				end - begin, r, (uint64_t)w);
		}
	}
	lay_out(window, proxy_slot(proxy, PROXY_RECEIVE, (unsigned)w), NULL, parts);
	for (int i = 0; i < window->nparts; i++) {
		CHECK(memcmp(parts[i].address, wanted + at, parts[i].size) == 0);
		at += parts[i].size;
		behind = (unsigned char *)parts[i].address + parts[i].size;
		for (int b = 0; b < GAP; b++) {
			CHECK_EQUAL(behind[b], UNTOUCHED);
		}
	}
}

/* ---- reduce-scatter ---- */

static unsigned dtype_of(int w)
{
	static const unsigned dtypes[] = {
		NCCL_FLOAT32, NCCL_BFLOAT16, NCCL_INT8, NCCL_FLOAT64, NCCL_FLOAT16};

	return dtypes[w % 5];
}

static void *start_scatter(struct proxy *proxy, int w)
{
	static unsigned char whole[FLEET_NODES_MAX * SHARE];
	const struct window *window = &windows[w];
	unsigned dtype = dtype_of(w);
	size_t width = smd_dtype_bytes(dtype);
	unsigned char *recv = proxy_slot(proxy, PROXY_RECEIVE, (unsigned)w);
	struct nccl_sge_v9 parts[PARTS_MAX];
	void *request = NULL;
	size_t at = 0;

	fleet_doing("ireducescatter of window %d", w);
	pattern_fill(whole, dtype, window->offset / width, window->bytes / width, proxy->rank,
		(uint64_t)w);
	lay_out(window, proxy_slot(proxy, PROXY_SEND, (unsigned)w), proxy->mhandles[PROXY_SEND],
		parts);
	for (int i = 0; i < window->nparts; i++) {
		memcpy(parts[i].address, whole + at, parts[i].size);
		at += parts[i].size;
	}
	memset(recv, UNTOUCHED, SLOT_BYTES);
	CHECK_EQUAL(collnet_ireducescatter(proxy->collnet, proxy->coll, window->nparts, parts, recv,
			    SHARE, window->offset, window->bytes, (int)dtype, w % NCCL_OP_COUNT,
			    proxy->mhandles[PROXY_RECEIVE], &request),
		NCCL_SUCCESS);
	return request;
}

static void check_scatter(const struct proxy *proxy, int w)
{
	const unsigned char *got = proxy_slot(proxy, PROXY_RECEIVE, (unsigned)w);
	size_t width = smd_dtype_bytes(dtype_of(w));
	size_t begin;
	size_t end;

	fleet_doing("check of scattered window %d", w);
	intersect(&windows[w], proxy->rank, &begin, &end);
	CHECK_EQUAL(pattern_wrong(got, dtype_of(w), dtype_of(w), (unsigned)w % NCCL_OP_COUNT,
			    begin / width, (end - begin) / width, proxy->nranks, (uint64_t)w),
		0);
	for (int b = 0; b < GAP; b++) {
		CHECK_EQUAL(got[end - begin + (size_t)b], UNTOUCHED);
	}
}

/* ---- the scenario ---- */

enum { GATHER, GATHER_IN_PLACE, SCATTER, ROUNDS };

/* All windows of a round are in flight with an all-reduce between them. */
static void use_windows(struct fleet_node *node)
{
	const struct proxy_shape shape = {.slots = WINDOWS + 1, .slot_bytes = SLOT_BYTES};
	struct proxy_op op = {.slot = WINDOWS, .dtype = NCCL_FLOAT32, .count = 5000, .seed = 9};
	void *library = library_open();
	void *requests[WINDOWS];
	struct collnet collnet;
	struct proxy proxy;

	collnet_find(&collnet, library, *(const int *)node->argument);
	proxy_open(&proxy, &collnet, node, &shape);
	for (int round = 0; round < ROUNDS; round++) {
		for (int w = 0; w < WINDOWS; w++) {
			requests[w] = round == SCATTER
					      ? start_scatter(&proxy, w)
					      : start_gather(&proxy, w, round == GATHER_IN_PLACE);
			CHECK(requests[w]);
			if (w == WINDOWS / 2) {
				CHECK_EQUAL(proxy_fill_and_start(&proxy, &op), NCCL_SUCCESS);
			}
		}
		wait_all(&proxy, requests);
		proxy_wait(&proxy, &op);
		proxy_verify(&proxy, &op);
		for (int w = 0; w < WINDOWS; w++) {
			(round == SCATTER ? check_scatter : check_gather)(&proxy, w);
		}
	}
	if (!getenv("SUMMAND_TEST_RDMA")) { /* by each loop to both servers */
		CHECK_EQUAL(process_busy_connections(SHARE / 2), 2 * atoi(getenv("SUMMAND_NCCL_LOOPS")));
	}
	proxy_deregister(&proxy, PROXY_SEND);
	proxy_close(&proxy);
	library_close(library);
}

bool gather_and_scatter(void)
{
	static const int versions[] = {8, 9, COLLNET_NEWEST};
	bool good = true;

	for (int i = 0; i < 3 && good; i++) {
		good = servers_run((struct fleet){.nnodes = 3,
					   .seconds = 40,
					   .body = use_windows,
					   .argument = &versions[i]},
			2);
	}
	return good;
}
