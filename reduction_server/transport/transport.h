/*
 * Transports and their lanes, as everybody else uses them: what a lane is, is in lane.h, and what a
 * transport does for these calls in operations.h.
 */
#ifndef SMD_TRANSPORT_TRANSPORT_H
#define SMD_TRANSPORT_TRANSPORT_H

#include <errno.h>

#include "reduction_server/transport/operations.h"

/* One of the table of transports (transports.c); NULL for another name. */
const struct smd_transport_ops *smd_transport_find(const char *name);

#define SMD_TRANSPORTS_MAX      8
#define SMD_TRANSPORT_PORTS     4
#define SMD_TRANSPORT_AUTO      "auto"
#define SMD_TRANSPORT_NAMES_MAX 128

/*
 * The transports that `name` stands for, most preferred first: the one of that name, or with "auto"
 * all that have a preference. How many; 0: there is none of that name.
 */
unsigned smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);

/* Whether what kept a lane from being made may be over the next time: a message lost on its way, or
 * a card that has much to do where hundreds of workers start at once. */
static inline bool smd_transport_error_passes(int err)
{
	return err == -ETIMEDOUT || err == -EAGAIN || err == -EBUSY || err == -EIO;
}

/* Nothing is heard over a network any more, or there is no way to the other end: no word of its
 * process, which may be at work. */
static inline bool smd_transport_error_is_silence(int err)
{
	return err == -ETIMEDOUT || err == -EHOSTUNREACH || err == -ENETUNREACH || err == -ENETDOWN;
}

/* Before a loop is freed; smd_loop_free() calls it. What closed lanes have still to say has up to
 * 0.1 s from their close. Not inside a callback of the loop's. */
void smd_transport_end_loop(struct event_base *base);

/* "auto, shm, rdma or tcp": what a user may ask for. */
const char *smd_transport_names(char out[SMD_TRANSPORT_NAMES_MAX]);

/* Payloads are written into advertised buffers, so that one lane uses all of the link. */
static inline bool smd_transport_can_advertise(const struct smd_transport_ops *ops)
{
	return ops->advertise != NULL;
}

/* Its devices may read and write memory of other devices. */
static inline bool smd_transport_takes_device_memory(const struct smd_transport_ops *ops)
{
	return ops->register_device != NULL;
}

static inline unsigned smd_transport_making_s(const struct smd_transport_ops *ops)
{
	return ops->making_s ? ops->making_s() : 0;
}

/* The transport over whose lanes this one's are made now; NULL: they connect by themselves. */
const struct smd_transport_ops *smd_transport_carrier(const struct smd_transport_ops *ops);
/* The operations of a transport whose lanes are made over a carrier only: -EOPNOTSUPP. */
int smd_carried_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error);
int smd_carried_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error);

/* What crosses its lanes can be encrypted. */
static inline bool smd_transport_can_encrypt(const struct smd_transport_ops *ops)
{
	return ops->encrypt != NULL;
}

static inline int smd_listener_encrypt(
	struct smd_listener *listener, const struct smd_lane_keys *keys, struct smd_error *error)
{
	return listener->ops->listener_encrypt(listener, keys, error);
}

static inline void smd_listener_close(struct smd_listener *listener)
{
	listener->ops->listener_close(listener);
}

/* Encodes `frame` with the payload's length and queues it. */
void smd_lane_send(struct smd_lane *lane, struct smd_frame *frame, struct smd_send *send);

/* A control frame: copies the payload (at most SMD_CONTROL_MAX bytes). -ENOMEM, -ENOBUFS. */
int smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);

static inline int smd_lane_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	return lane->ops->attach(lane, base, callbacks, owner);
}

static inline int smd_lane_encrypt(
	struct smd_lane *lane, const struct smd_lane_key *key, struct smd_error *error)
{
	return lane->ops->encrypt(lane, key, error);
}

static inline void smd_lane_set_owner(
	struct smd_lane *lane, const struct smd_lane_callbacks *callbacks, void *owner)
{
	lane->ops->set_owner(lane, callbacks, owner);
}

static inline bool smd_lane_local_address(const struct smd_lane *lane, uint8_t address[16])
{
	return lane->ops->local_address && lane->ops->local_address(lane, address);
}

static inline void smd_lane_detach(struct smd_lane *lane)
{
	lane->ops->detach(lane);
}

static inline void smd_lane_cancel(struct smd_lane *lane, const void *owner)
{
	lane->ops->cancel(lane, owner);
}

/* Whether the lane could be looked at. */
static inline bool smd_lane_poll(struct smd_lane *lane)
{
	if (lane->ops->poll) {
		lane->ops->poll(lane);
	}
	return lane->ops->poll != NULL;
}

/* Whether buffers can be advertised on the lane. */
static inline bool smd_lane_can_advertise(const struct smd_lane *lane)
{
	return smd_transport_can_advertise(lane->ops);
}

static inline struct smd_advertisement *smd_lane_advertise(
	struct smd_lane *lane, void *memory, uint32_t length, struct smd_extent extent)
{
	return lane->ops->advertise(lane, memory, length, extent);
}

static inline void smd_lane_revoke(struct smd_lane *lane, struct smd_advertisement *advertise)
{
	if (advertise) {
		lane->ops->revoke(lane, advertise);
	}
}

/* NULL: it was never advertised. */
static inline void smd_lane_withdraw(struct smd_lane *lane, struct smd_advertisement *advertise,
	void *memory, smd_withdrawn *gone, void *owner)
{
	if (advertise && lane->ops->withdraw) {
		lane->ops->withdraw(lane, advertise, gone, owner);
	} else {
		smd_lane_revoke(lane, advertise);
		gone(owner, memory);
	}
}

static inline void smd_lane_claim(
	struct smd_lane *lane, struct smd_advertisement *advertise, uint32_t length)
{
	if (lane->ops->claim) {
		lane->ops->claim(lane, advertise, length);
	} else {
		lane->ops->revoke(lane, advertise);
	}
}

static inline void smd_lane_register(
	struct smd_lane *lane, struct smd_extent memory, size_t largest, bool now)
{
	if (lane->ops->register_memory) {
		lane->ops->register_memory(lane, memory, largest, now);
	}
}

/* Whether the lane's card may take memory of devices. */
static inline bool smd_lane_has_card(const struct smd_lane *lane)
{
	return smd_transport_takes_device_memory(lane->ops);
}

static inline int smd_lane_register_device(
	struct smd_lane *lane, struct smd_extent memory, int fd, uint64_t offset)
{
	return lane->ops->register_device(lane, memory, fd, offset);
}

static inline void smd_lane_deregister(struct smd_lane *lane, struct smd_extent memory)
{
	if (lane->ops->deregister) {
		lane->ops->deregister(lane, memory);
	}
}

static inline bool smd_lane_can_dma(
	const struct smd_lane *lane, const void *memory, uint32_t length)
{
	return lane->ops->can_dma && lane->ops->can_dma(lane, memory, length);
}

static inline void smd_lane_invalidate(struct smd_lane *lane, uint64_t generation)
{
	if (lane->ops->invalidate) {
		lane->ops->invalidate(lane, generation);
	}
}

static inline void smd_lane_keepalive_only(struct smd_lane *lane, unsigned patience_ms)
{
	if (lane->ops->keepalive_only) {
		lane->ops->keepalive_only(lane, patience_ms);
	}
}

/* Whether the loop need not turn for the lane any more. */
static inline bool smd_lane_poll_only(struct smd_lane *lane)
{
	if (lane->ops->poll_only) {
		lane->ops->poll_only(lane);
	}
	return lane->ops->poll_only != NULL;
}

static inline void smd_lane_limit_unsent(struct smd_lane *lane, uint32_t bytes)
{
	if (lane->ops->limit_unsent) {
		lane->ops->limit_unsent(lane, bytes);
	}
}

static inline int smd_lane_skip_zeros(struct smd_lane *lane, uint32_t largest, bool careful)
{
	return lane->ops->skip_zeros ? lane->ops->skip_zeros(lane, largest, careful) : 0;
}

static inline void smd_lane_redirect(struct smd_lane *lane, void *payload)
{
	lane->ops->redirect(lane, payload);
}

static inline void smd_lane_close(struct smd_lane *lane)
{
	lane->ops->close(lane);
}

static inline void smd_lane_close_later(
	struct smd_lane *lane, void (*released)(void *owner), void *owner)
{
	if (lane->ops->close_later) {
		lane->ops->close_later(lane, released, owner);
	} else {
		smd_lane_close(lane);
		released(owner);
	}
}

static inline const char *smd_lane_peer_name(const struct smd_lane *lane)
{
	return lane->ops->peer_name(lane);
}

#endif
