/* What the ends of a lane offer to each other, as bytes (specs/design/shm.md). */
#ifndef SMD_TRANSPORT_SHM_WIRE_H
#define SMD_TRANSPORT_SHM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/shm/meeting.h"

struct smd_offer;

struct shm_offer {
	uint32_t ring;              /* bytes: at most, or in an answer as they are */
	bool answers;               /* the other end's offer, which has no meeting */
	struct shm_meeting meeting; /* where its memory is awaited */
};

void smd_shm_offer_encode(const struct shm_offer *offer, struct smd_offer *out);
/* -EPROTO with a text. `answers`: it must, or must not. */
int smd_shm_offer_decode(const struct smd_offer *bytes, bool answers, struct shm_offer *out,
	struct smd_error *error);

#endif
