/* Ends an RDMA lane for a reason: here a completion becomes an error, and an error on_closed(). */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/transport/rdma/rdma.h"

#define LAST_POLLS 64 /* at the queue, when the connection has ended */

void smd_rdma_lane_end(struct rdma_lane *lane, int err, const char *reason)
{
	if (lane->closed || lane->ended) {
		return;
	}
	if (!lane->callbacks) { /* it is detached: whoever attaches it is told */
		if (!lane->err) {
			smd_rdma_lane_fail(lane, err, reason);
		}
		return;
	}
	lane->ended = true;
	if (lane->patience) {
		event_del(lane->patience);
	}
	lane->callbacks->on_closed(lane->owner, err, reason);
}

void smd_rdma_lane_disconnected(struct rdma_lane *lane, int err, const char *reason)
{
	for (int i = 0; i < LAST_POLLS && lane->paired && !lane->closed && !lane->ended; i++) {
		if (smd_rdma_device_poll(lane->device) == 0) {
			break;
		}
	}
	smd_rdma_lane_end(lane, err, reason);
}

void smd_rdma_lane_fail(struct rdma_lane *lane, int err, const char *reason)
{
	if (lane->closed) { /* whoever closes it looks at this */
		lane->err = lane->err ? lane->err : err;
		return;
	}
	if (lane->ended || (lane->err && !lane->err_is_flush)) {
		return;
	}
	lane->err = err;
	lane->err_is_flush = false;
	snprintf(lane->reason, sizeof(lane->reason), "%s", reason);
	smd_rdma_device_wake(lane->device, &lane->pair);
}

void smd_rdma_lane_fail_status(struct rdma_lane *lane, const struct ibv_wc *completion)
{
	static const struct {
		enum ibv_wc_status status;
		int err;
		const char *reason;
	} causes[] = {
		{IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT, "the other end no longer answers"},
		{IBV_WC_RNR_RETRY_EXC_ERR, -EPROTO, "the other end had no receive ready"},
		{IBV_WC_REM_ACCESS_ERR, -EACCES,
			"the other end has closed its memory, as when its process ends"},
		{IBV_WC_REM_INV_REQ_ERR, -EPROTO, "the other end found a write invalid"},
		{IBV_WC_REM_OP_ERR, -EIO, "the other end could not do a write"},
		{IBV_WC_REM_ABORT_ERR, -ECONNRESET, "the other end gave up a write"},
		{IBV_WC_LOC_PROT_ERR, -EFAULT, "memory to be sent is not registered"},
		{IBV_WC_WR_FLUSH_ERR, -ECONNRESET, "the queue pair was shut down"},
		{IBV_WC_FATAL_ERR, -EIO, "the device has failed"},
	};
	enum ibv_wc_status status = completion->status;
	bool is_flush = status == IBV_WC_WR_FLUSH_ERR;
	const char *reason = ibv_wc_status_str(status);
	char text[160];
	int err = -EIO;

	if (is_flush && lane->err) {
		return; /* the cause is known */
	}
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (causes[i].status == status) {
			err = causes[i].err;
			reason = causes[i].reason;
		}
	}
	if (completion->vendor_err && !is_flush) { /* which the card's maker can explain */
		snprintf(text, sizeof(text), "%s (vendor error 0x%x)", reason,
			completion->vendor_err);
		reason = text;
	}
	smd_rdma_lane_fail(lane, err, reason);
	lane->err_is_flush = lane->err && is_flush;
}
