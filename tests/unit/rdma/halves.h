/*
 * Two ends of a lane that is made over a carrier: one offers first, as a shard does, the other
 * answers, as a worker does.
 */
#ifndef SMD_TESTS_RDMA_HALVES_H
#define SMD_TESTS_RDMA_HALVES_H

#include "reduction_server/wire/message.h"
#include "tests/unit/rdma/peer.h"

/* The other lane, of which nothing matters but whose it is and that it ends. */
struct carrier {
	struct smd_lane lane;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	uint8_t address[16];
	unsigned patience_ms; /* with a network that is silent; 0: nobody has said */
	bool closed;
};

struct half {
	struct end *end;
	struct carrier carrier;
	const struct smd_lane_callbacks *callbacks; /* NULL: those of links */
	uint16_t kinds; /* of the other end's devices, that it hears of before it offers */
	struct smd_offer offer;
	struct rdma_lane *lane;
};

struct halves {
	struct link *link;
	struct half first;  /* offers first, as a shard does */
	struct half second; /* answers, as a worker does */
};

void half_begin(struct half *half, struct link *link, struct end *end);
int half_offer(struct half *half, struct link *link, const struct smd_offer *other,
	struct smd_error *error);
int half_join(struct half *half, const struct half *other, struct smd_error *error);
/* What TCP would say; and where the other end has closed its lane, once. */
void carrier_end(struct half *half, int err, const char *reason);
void carriers_tell(struct halves *halves);

void halves_begin(struct halves *halves, struct link *link);
/* Both have offered, and the second has joined. */
void halves_offer(struct halves *halves, struct link *link);
void halves_open(struct halves *halves, struct link *link);
void halves_close(struct halves *halves);

/* "script0" and "script1", RoCE of one network: what they have to do with a carrier is its address.
 */
void two_cards(void);
/* Both carriers come from no card's. */
void carriers_come_from_elsewhere(struct halves *halves);

/* What a loop knows goes with its last user: the next lane reads settings and opens devices anew. */
void forget_loop(struct link *link);

#endif
