/*
 * Messages of more numbers than one frame holds come in several, one after the other on each lane.
 * They are kept here until the last one is there.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_PARTS_H
#define SMD_LIBSUMMAND_EPOCH_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct smd_epoch_message;
struct smd_epoch_part;

/* Those of a communicator; NULL: there are none. */
struct smd_epoch_parts {
	struct smd_epoch_part *first;
};

/*
 * A frame has come through that stream: 1 if *message is whole, by it and those before. Else 0, and
 * it is kept; or not, where the ones before did not come here: it comes through other servers too.
 * -ENOMEM: it may come nowhere.
 */
int smd_epoch_parts_complete(
	struct smd_epoch_parts *parts, const void *stream, struct smd_epoch_message *message);

/* What they take. */
size_t smd_epoch_parts_bytes(const struct smd_epoch_parts *parts);

void smd_epoch_parts_free(struct smd_epoch_parts *parts);

#endif
