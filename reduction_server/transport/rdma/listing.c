/*
 * Reads which ports there are: at once for who cannot go on without, else by the loop's maker. A host
 * with 8 cards has some 2,000 files for that, and other lanes are at work meanwhile.
 */
#include "reduction_server/transport/rdma/listing.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/rdma/maker.h"

#define FRESH_NS   SMD_SECOND_NS /* so long what is known of ports counts as true */

/* With the maker. */
struct rdma_listing {
	struct rdma_job job;
	struct rdma_drain drain;
	struct rdma_loop *loop;
	uint64_t before_ns;           /* since then those are known that it began with: */
	struct smd_verbs_port *known; /* [nknown]; their cards stay open meanwhile */
	unsigned nknown;
	struct smd_verbs_port *ports; /* [found]; NULL with -errno */
	int found;
};

static void loop_take(struct rdma_loop *loop, struct smd_verbs_port *ports, int found)
{
	free(loop->ports);
	loop->ports = ports;
	loop->nports = found > 0 ? (unsigned)found : 0;
	loop->ports_ns = found < 0 ? 0 : smd_clock_ns();
}

static int ports_read(struct rdma_loop *loop)
{
	struct smd_verbs_port *ports;
	int found = smd_verbs_ports("", &ports);

	loop_take(loop, ports, found);
	return found < 0 ? found : 0;
}

/* ---- by the maker ---- */

/* NULL: it is not open here. */
static struct ibv_context *listing_device(const struct rdma_listing *listing, const char *name)
{
	for (unsigned i = 0; i < listing->nknown; i++) {
		const struct smd_verbs_port *known = &listing->known[i];

		if (known->device && strcmp(known->name, name) == 0) {
			return known->device;
		}
	}
	return NULL;
}

static void job_read(struct rdma_job *job)
{
	struct rdma_listing *listing =
		(struct rdma_listing *)((char *)job - offsetof(struct rdma_listing, job));

	listing->found = smd_verbs_ports("", &listing->ports);
	for (int i = 0; i < listing->found; i++) {
		struct smd_verbs_port *port = &listing->ports[i];
		struct ibv_context *device = listing_device(listing, port->name);

		if (device) { /* what it cannot say now, the lane that takes the port asks for */
			(void)smd_rdma_port_ask(port, device);
		}
	}
}

static void listing_free(struct rdma_listing *listing)
{
	free(listing->known);
	free(listing->ports);
	free(listing);
}

/* What a card has told meanwhile, or a lane has read, is newer. */
static void listing_take(struct rdma_listing *listing)
{
	struct rdma_loop *loop = listing->loop;

	if (loop->ports_ns == listing->before_ns) {
		loop_take(loop, listing->ports, listing->found);
		listing->ports = NULL;
	}
}

static void job_on_read(struct rdma_job *job)
{
	struct rdma_listing *listing =
		(struct rdma_listing *)((char *)job - offsetof(struct rdma_listing, job));
	struct rdma_loop *loop = listing->loop;

	LIST_REMOVE(&listing->drain, link);
	loop->listing = NULL;
	listing_take(listing);
	listing_free(listing);
	smd_rdma_cards_release(loop); /* that were removed meanwhile */
	smd_rdma_loop_put(loop);
}

static void listing_end_with_loop(struct rdma_drain *drain)
{
	const struct rdma_listing *listing =
		(struct rdma_listing *)((char *)drain - offsetof(struct rdma_listing, drain));

	smd_rdma_loop_finish_maker(listing->loop);
}

static struct rdma_listing *listing_create(struct rdma_loop *loop)
{
	struct rdma_listing *listing = calloc(1, sizeof(*listing));

	if (!listing) {
		return NULL;
	}
	listing->loop = loop;
	listing->before_ns = loop->ports_ns;
	listing->known = calloc(loop->nports + 1, sizeof(*listing->known));
	if (!listing->known) {
		listing_free(listing);
		return NULL;
	}
	for (; listing->nknown < loop->nports; listing->nknown++) {
		listing->known[listing->nknown] = loop->ports[listing->nknown];
	}
	listing->job = (struct rdma_job){
		.what = "describe its ports", .run = job_read, .done = job_on_read};
	listing->drain.end = listing_end_with_loop;
	return listing;
}

static bool ports_read_later(struct rdma_loop *loop)
{
	if (!loop->maker) {
		return false;
	}
	if (!loop->listing) {
		loop->listing = listing_create(loop);
		if (!loop->listing) {
			return false;
		}
		loop->users++;
		LIST_INSERT_HEAD(&loop->drains, &loop->listing->drain, link);
		smd_rdma_maker_give(loop->maker, &loop->listing->job);
	}
	return true;
}

/* ---- for lanes ---- */

static bool ports_are_old(const struct rdma_loop *loop)
{
	return loop->ports_ns == 0 || smd_clock_ns() - loop->ports_ns > FRESH_NS;
}

/* What is known of a port whose card is open is taken for true, however old, as the card tells of
 * changes; of the others, and that there is none, only what is fresh. */
static bool ports_will_do(const struct rdma_loop *loop, const struct smd_rdma_wish *wish)
{
	const struct smd_verbs_port *port =
		loop->ports_ns ? smd_rdma_port_choose(loop->ports, loop->nports, wish) : NULL;

	return port && port->device;
}

static int ports_know(
	struct rdma_loop *loop, const struct smd_rdma_wish *wish, struct smd_error *error)
{
	int ret = 0;

	if (ports_are_old(loop) &&
		!(ports_will_do(loop, wish) && ports_read_later(loop))) {
		ret = ports_read(loop);
	}
	if (ret == -EPROTONOSUPPORT) {
		return smd_error_set(error, EPROTONOSUPPORT,
			"no RDMA device is InfiniBand or RoCE (iWARP's have no immediate data, EFA's no "
			"reliable connections)");
	}
	if (ret == -EACCES) {
		return smd_error_set(error, ENETDOWN,
			"no RDMA device can be used: /dev/infiniband/uverbs* must be there, and "
			"let this process read and write");
	}
	return ret ? smd_error_set(error, -ret, "rdma: cannot list the devices: %s", strerror(-ret))
		   : 0;
}

int smd_rdma_listing_choose(struct rdma_loop *loop, const struct smd_rdma_wish *wish,
	struct smd_verbs_port *out, struct smd_error *error)
{
	int ret = ports_know(loop, wish, error);

	return ret ? ret : smd_rdma_card_choose(loop, wish, out, error);
}
