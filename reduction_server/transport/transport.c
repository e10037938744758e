/* Finds transports by name and queues frames on their lanes. */
#include "reduction_server/transport/transport.h"

#include <errno.h>
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
	static const struct smd_transport_ops *const transports[] = {
		&smd_transport_tcp,
		&smd_transport_rdma,
		&smd_transport_loopback,
		&smd_transport_fault,
	};

	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (strcmp(transports[i]->name, name) == 0) {
			return transports[i];
		}
	}
	return NULL;
}

void smd_lane_send(struct smd_lane *lane, struct smd_frame *frame, struct smd_send *send)
{
	frame->length = send->length;
	smd_frame_encode(frame, send->header);
	send->sent = 0;
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
	};
	smd_lane_send(lane, frame, &control->send);
	return 0;
}
