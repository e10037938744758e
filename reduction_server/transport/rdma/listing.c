/*
 * Reads which ports there are: at once for who cannot go on without, else by the loop's maker. A host
 * with 8 cards has some 2,000 files for that, and other lanes are at work meanwhile.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/rdma/card.h"
#include "reduction_server/transport/rdma/maker.h"

#define PORTS_MOST 256 /* addresses that are looked at */

/* With the maker. */
struct rdma_listing {
	struct rdma_job job;
	struct rdma_drain drain;
	struct rdma_loop *loop;
	uint64_t before_ns;           /* since then those are known that it began with: */
	struct smd_verbs_port *known; /* [nknown]; their cards stay open meanwhile */
	unsigned nknown;
	struct smd_verbs_port *ports; /* [found], or -errno */
	int found;
};

static void loop_take(struct rdma_loop *loop, int found)
{
	loop->nports = found > 0 ? (unsigned)found : 0;
	loop->ports_ns = found < 0 ? 0 : smd_clock_ns();
}

int smd_rdma_ports_read(struct rdma_loop *loop)
{
	int found;

	if (!loop->ports) {
		loop->ports = calloc(PORTS_MOST, sizeof(*loop->ports));
	}
	found = loop->ports ? smd_verbs_ports("", loop->ports, PORTS_MOST) : -ENOMEM;
	loop_take(loop, found);
	return found < 0 ? found : 0;
}

int smd_rdma_port_ask(struct smd_verbs_port *port, struct ibv_context *device)
{
	struct smd_verbs_limits limits;
	int ret = smd_verbs_query(device, port->number, &limits);

	if (ret == 0) {
		port->device = device;
		port->mtu = limits.mtu;
		port->routed = limits.routed;
	}
	return ret;
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

	listing->found = smd_verbs_ports("", listing->ports, PORTS_MOST);
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
	struct smd_verbs_port *old = loop->ports;

	if (loop->ports_ns == listing->before_ns) {
		loop->ports = listing->ports;
		listing->ports = old;
		loop_take(loop, listing->found);
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

	smd_rdma_maker_finish(listing->loop->maker);
}

static struct rdma_listing *listing_create(struct rdma_loop *loop)
{
	struct rdma_listing *listing = calloc(1, sizeof(*listing));

	if (!listing) {
		return NULL;
	}
	listing->loop = loop;
	listing->before_ns = loop->ports_ns;
	listing->nknown = loop->nports;
	listing->known = calloc(PORTS_MOST, sizeof(*listing->known));
	listing->ports = calloc(PORTS_MOST, sizeof(*listing->ports));
	if (!listing->known || !listing->ports) {
		listing_free(listing);
		return NULL;
	}
	memcpy(listing->known, loop->ports, loop->nports * sizeof(*loop->ports));
	listing->job = (struct rdma_job){.run = job_read, .done = job_on_read};
	listing->drain.end = listing_end_with_loop;
	return listing;
}

bool smd_rdma_ports_read_later(struct rdma_loop *loop)
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
