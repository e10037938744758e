/* Writes and reads offers. */
#include "reduction_server/transport/shm/wire.h"

#include <errno.h>

#include "reduction_server/transport/shm/memory.h"
#include "reduction_server/wire/cursor.h"
#include "reduction_server/wire/message.h"

#define MAGIC       0x4d444d53u /* "SMDM" */
#define VERSION     1
#define ANSWER_SIZE 16
#define OFFER_SIZE  (ANSWER_SIZE + SMD_SHM_NAME_SIZE + SMD_SHM_SECRET_SIZE)

_Static_assert(OFFER_SIZE <= SMD_OFFER_MAX, "an offer has room");

void smd_shm_offer_encode(const struct shm_offer *offer, struct smd_offer *out)
{
	struct smd_writer writer = {.start = out->bytes, .size = sizeof(out->bytes)};

	smd_writer_put(&writer, MAGIC, 4);
	smd_writer_put(&writer, VERSION, 2);
	smd_writer_put(&writer, 0, 2);
	smd_writer_put(&writer, offer->ring, 4);
	smd_writer_put(&writer, 0, 4);
	if (!offer->answers) {
		smd_writer_put_bytes(&writer, offer->meeting.name, SMD_SHM_NAME_SIZE);
		smd_writer_put_bytes(&writer, offer->meeting.secret, SMD_SHM_SECRET_SIZE);
	}
	out->length = writer.used;
}

int smd_shm_offer_decode(
	const struct smd_offer *bytes, bool answers, struct shm_offer *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = bytes->bytes, .left = bytes->length};
	uint64_t magic = smd_reader_get(&reader, 4);
	uint64_t version = smd_reader_get(&reader, 2);

	if (reader.failed || magic != MAGIC || version != VERSION) {
		return smd_error_set(error, EPROTO,
			"the offer must be of shared memory, version %d, got version %u", VERSION,
			(unsigned)version);
	}
	smd_reader_get(&reader, 2);
	out->answers = answers;
	out->ring = (uint32_t)smd_reader_get(&reader, 4);
	smd_reader_get(&reader, 4);
	if (!answers) {
		smd_reader_get_bytes(&reader, out->meeting.name, SMD_SHM_NAME_SIZE);
		smd_reader_get_bytes(&reader, out->meeting.secret, SMD_SHM_SECRET_SIZE);
	}
	if (reader.failed || reader.left || !smd_shm_memory_is_ring(out->ring)) {
		return smd_error_set(error, EPROTO,
			"the offer must be of %d bytes and of rings of %u to %u bytes (a power of "
			"2), got %zu bytes and %u",
			answers ? ANSWER_SIZE : OFFER_SIZE, SMD_SHM_RING_LEAST, SMD_SHM_RING_MOST,
			bytes->length, out->ring);
	}
	return 0;
}
