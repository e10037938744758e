/* Says something in all streams that carry what ranks agree on. */
#include "worker/libsummand/epoch_carrier.h"

#include <errno.h>
#include <string.h>

#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_message.h"

static uint16_t stage_of(unsigned kind)
{
	if (kind == SMD_EPOCH_SEALED || kind == SMD_EPOCH_ASK) {
		return SMD_AGREE_BEGINS;
	}
	return kind == SMD_EPOCH_RECORD ? SMD_AGREE_CONCLUDES : SMD_AGREE_OTHER;
}

static bool flow_lives(const struct smd_flow *flow)
{
	return flow->asked && !flow->over && !flow->dead;
}

/* In as many frames as it takes. */
static void say_to(
	struct smd_remote *remote, struct smd_frame *frame, const struct smd_epoch_message *message)
{
	uint8_t payload[SMD_CONTROL_MAX];
	unsigned end = 0;

	do {
		size_t length = smd_epoch_message_encode(message, end, &end, payload);

		smd_remote_send_frame(remote, frame, payload, length);
	} while (end < smd_epoch_message_count(message));
}

/*
 * The first epoch's streams carry it where they live. A server that has come back has later ones
 * only, and not all ranks have the same of them at every moment: so all of them do, those too that
 * are being joined.
 */
static void say_in(const struct smd_epoch *epoch, struct smd_frame *frame,
	const struct smd_epoch_message *message)
{
	const struct smd_comm *comm = epoch->comm;

	frame->comm = epoch->receiver.number;
	for (unsigned i = 0; i < epoch->nremotes; i++) {
		const struct smd_flow *first =
			i < comm->base.nremotes ? &comm->base.flows[i] : NULL;
		const struct smd_flow *flow = &epoch->flows[i];
		bool carries = flow == first ? flow->joined
					     : !(first && first->joined && flow_lives(first));

		if (flow_lives(flow) && carries && flow->remote->shard == 0) {
			say_to(flow->remote, frame, message);
		}
	}
}

void smd_epoch_say(struct smd_comm *comm, struct smd_epoch_message *message)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_AGREE,
		.rank = comm->rank,
		.window = stage_of(message->kind),
		.ordinal = message->epoch + (message->kind != SMD_EPOCH_RECORD),
	};

	message->rank = comm->rank;
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		say_in(epoch, &frame, message);
	}
	/* So that nothing that is said through the next epoch's streams comes before its record. */
	if (comm->candidate && stage_of(message->kind) != SMD_AGREE_BEGINS) {
		say_in(comm->candidate, &frame, message);
	}
	/* A rank that joins them late has not heard there what was said before: the record of an
	 * epoch before what is asked in it. */
	for (const struct smd_epoch *epoch = comm->rescues;
		epoch && stage_of(message->kind) != SMD_AGREE_OTHER; epoch = epoch->next) {
		say_in(epoch, &frame, message);
	}
}

int smd_epoch_draw_id(struct smd_comm *comm, uint64_t *out)
{
	uint8_t nonce[SMD_NONCE_SIZE];

	if (smd_nonce_draw(nonce)) {
		smd_comm_fault(comm, -ENOMEM, "no random number for the next epoch");
		return -ENOMEM;
	}
	memcpy(out, nonce, sizeof(*out));
	*out |= 1;
	return 0;
}
