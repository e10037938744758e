/* Exchanges offers over a connection's lane, and joins the halves of another. */
#include "worker/nccl_plugin/net/pair.h"

#include <errno.h>

#include "reduction_server/wire/message.h"

const struct smd_transport_ops *smd_net_connects_over(
	const struct smd_net_options *options, const struct smd_transport_ops *ops)
{
	const struct smd_transport_ops *carrier =
		options->encrypt ? NULL : smd_transport_carrier(ops);

	return carrier ? carrier : ops;
}

const struct smd_transport_ops *smd_net_carried_by(
	const struct smd_net_options *options, const struct smd_transport_ops *carrier)
{
	for (unsigned i = 0; i < options->ntransports; i++) {
		const struct smd_transport_ops *ops = options->transports[i];

		if (ops != carrier && smd_net_connects_over(options, ops) == carrier) {
			return ops;
		}
	}
	return NULL;
}

/* Who knows the handle's nonce may connect, and has said it. */
static int pair_say(struct smd_lane *lane, const struct smd_pair *pair, struct smd_error *error)
{
	struct smd_frame frame = {.kind = SMD_FRAME_PAIR};
	uint8_t payload[SMD_CONTROL_MAX];

	return smd_lane_send_control(lane, &frame, payload, smd_pair_encode(pair, payload))
		       ? smd_error_set(error, ENOMEM, "out of memory")
		       : 0;
}

int smd_net_pair_offer(struct smd_net_lane *lane, const struct smd_transport_ops *ops,
	const struct smd_lane_callbacks *callbacks, void *owner, struct smd_lane **made,
	struct smd_error *error)
{
	struct smd_pair own = {.proved = false};
	int ret = ops->offer(lane->comm->base, lane->lane, SMD_SHARD_UNKNOWN, NULL, 0, callbacks,
		owner, made, &own.offer, error);

	if (ret) {
		*made = NULL;
		return ret;
	}
	return pair_say(lane->lane, &own, error);
}

int smd_net_pair_answer(struct smd_net_lane *lane, const struct smd_transport_ops *ops,
	const struct smd_frame *frame, const struct smd_lane_callbacks *callbacks,
	struct smd_error *error)
{
	struct smd_pair own = {.proved = false};
	struct smd_pair theirs;
	struct smd_lane *made;
	int ret = smd_pair_decode(lane->control, frame->length, &theirs, error);

	if (ret == 0) {
		ret = ops->offer(lane->comm->base, lane->lane, SMD_SHARD_UNKNOWN, &theirs.offer, 0,
			callbacks, lane, &made, &own.offer, error);
	}
	if (ret) {
		return ret;
	}
	/* Before it is joined: nothing may be said on the carrier later. */
	ret = pair_say(lane->lane, &own, error);
	if (ret == 0) {
		ret = ops->join(made, lane->lane, &theirs.offer, error);
	}
	if (ret) {
		smd_lane_close(made);
		return ret;
	}
	lane->lane = made;
	return 0;
}

int smd_net_pair_join(struct smd_net_lane *lane, struct smd_lane *made,
	const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_pair theirs;
	int ret = smd_pair_decode(lane->control, frame->length, &theirs, error);

	if (ret == 0) {
		ret = made->ops->join(made, lane->lane, &theirs.offer, error);
	}
	if (ret == 0) {
		lane->lane = NULL;
	}
	return ret;
}
