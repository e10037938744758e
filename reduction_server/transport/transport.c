/* Finds transports in their table and queues frames on their lanes. */
#include "reduction_server/transport/transports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A control frame carries its payload with it, and frees both when they have left. */
struct control_send {
	struct smd_lane *lane;
	struct smd_send send;
	uint8_t payload[];
};

const struct smd_transport_ops *smd_transport_find(const char *name)
{
	for (size_t i = 0; smd_transports[i]; i++) {
		if (strcmp(smd_transports[i]->name, name) == 0) {
			return smd_transports[i];
		}
	}
	return NULL;
}

/* Those that have a preference, the highest first. */
static unsigned select_preferred(const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX])
{
	unsigned n = 0;

	for (size_t i = 0; smd_transports[i] && n < SMD_TRANSPORTS_MAX; i++) {
		unsigned at = n;

		if (smd_transports[i]->preference == 0) {
			continue;
		}
		for (; at && out[at - 1]->preference < smd_transports[i]->preference; at--) {
			out[at] = out[at - 1];
		}
		out[at] = smd_transports[i];
		n++;
	}
	return n;
}

const struct smd_transport_ops *smd_transport_carrier(const struct smd_transport_ops *ops)
{
	const char *name = ops->carrier ? ops->carrier() : NULL;
	const struct smd_transport_ops *carrier = name ? smd_transport_find(name) : NULL;

	return carrier && carrier->set_owner ? carrier : NULL;
}

int smd_carried_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	(void)base;
	(void)on_accept;
	(void)owner;
	(void)out;
	(void)bound;
	return smd_error_set(error, EOPNOTSUPP,
		"%s: such lanes must be made over those of another transport", address);
}

int smd_carried_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	(void)base;
	(void)origin;
	(void)shard;
	(void)callbacks;
	(void)owner;
	(void)out;
	return smd_error_set(error, EOPNOTSUPP,
		"%s: such lanes must be made over those of another transport", address);
}

unsigned smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX])
{
	if (strcmp(name, SMD_TRANSPORT_AUTO) == 0) {
		return select_preferred(out);
	}
	out[0] = smd_transport_find(name);
	return out[0] != NULL;
}

const char *smd_transport_names(char out[SMD_TRANSPORT_NAMES_MAX])
{
	const struct smd_transport_ops *preferred[SMD_TRANSPORTS_MAX];
	unsigned n = select_preferred(preferred);
	size_t used = (size_t)snprintf(out, SMD_TRANSPORT_NAMES_MAX, "%s", SMD_TRANSPORT_AUTO);

	for (unsigned i = 0; i < n && used < SMD_TRANSPORT_NAMES_MAX; i++) {
		used += (size_t)snprintf(out + used, SMD_TRANSPORT_NAMES_MAX - used, "%s%s",
			i + 1 < n ? ", " : " or ", preferred[i]->name);
	}
	return out;
}

void smd_transport_end_loop(struct event_base *base)
{
	for (size_t i = 0; smd_transports[i]; i++) {
		if (smd_transports[i]->loop_end) {
			smd_transports[i]->loop_end(base);
		}
	}
}

void smd_lane_send(struct smd_lane *lane, struct smd_frame *frame, struct smd_send *send)
{
	frame->length = send->length;
	smd_frame_encode(frame, send->header);
	send->sent = 0;
	send->looked = false;
	send->nadvertised = 0;
	lane->ops->send(lane, send);
}

static void control_done(struct smd_send *send, int err)
{
	struct control_send *control = send->owner;

	(void)err; /* a lane that ends is reported by on_closed() */
	control->lane->controls--;
	free(control);
}

int smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length)
{
	struct control_send *control;

	if (lane->controls == SMD_LANE_CONTROLS_MAX) {
		return -ENOBUFS;
	}
	control = malloc(sizeof(*control) + length);
	if (!control) {
		return -ENOMEM;
	}
	lane->controls++;
	control->lane = lane;
	if (length) {
		memcpy(control->payload, payload, length);
	}
	control->send = (struct smd_send){
		.payload = control->payload,
		.length = (uint32_t)length,
		.done = control_done,
		.owner = control,
		.self_contained = true,
	};
	smd_lane_send(lane, frame, &control->send);
	return 0;
}
