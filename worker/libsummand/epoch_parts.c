/* Puts messages together that come in several frames. */
#include "worker/libsummand/epoch_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/epoch_message.h"

struct smd_epoch_part {
	struct smd_epoch_part *next;
	const void *stream;
	struct smd_epoch_message message; /* up to `end` */
};

/* The place of what a rank says through a stream. */
static struct smd_epoch_part **find(
	struct smd_epoch_parts *parts, const void *stream, unsigned rank)
{
	struct smd_epoch_part **at = &parts->first;

	while (*at && ((*at)->stream != stream || (*at)->message.rank != rank)) {
		at = &(*at)->next;
	}
	return at;
}

static bool continues(const struct smd_epoch_message *one, const struct smd_epoch_message *next)
{
	return one->end == next->begin && one->kind == next->kind && one->epoch == next->epoch &&
	       one->dead == next->dead && one->id == next->id && one->first == next->first &&
	       one->oldest == next->oldest && one->scale == next->scale &&
	       one->soon == next->soon && one->nstreams == next->nstreams &&
	       one->nweights == next->nweights;
}

/* The numbers of `from` from `begin` to its end. */
static void copy(struct smd_epoch_message *to, const struct smd_epoch_message *from, unsigned begin)
{
	unsigned n = from->nstreams;
	unsigned streams_end = from->end < n ? from->end : n;

	if (begin < streams_end) {
		memcpy(to->streams + begin, from->streams + begin,
			(streams_end - begin) * sizeof(*to->streams));
	}
	begin = begin > n ? begin : n;
	if (begin < from->end) {
		memcpy(to->weights + begin - n, from->weights + begin - n,
			(from->end - begin) * sizeof(*to->weights));
	}
}

static void drop(struct smd_epoch_part **at)
{
	struct smd_epoch_part *part = *at;

	if (part) {
		*at = part->next;
		free(part);
	}
}

static int keep(
	struct smd_epoch_parts *parts, const void *stream, const struct smd_epoch_message *message)
{
	struct smd_epoch_part *part = malloc(sizeof(*part));

	if (!part) {
		return -ENOMEM;
	}
	*part = (struct smd_epoch_part){
		.next = parts->first, .stream = stream, .message = *message};
	parts->first = part;
	return 0;
}

int smd_epoch_parts_complete(
	struct smd_epoch_parts *parts, const void *stream, struct smd_epoch_message *message)
{
	struct smd_epoch_part **at = find(parts, stream, message->rank);
	bool ends = message->end == smd_epoch_message_count(message);

	if (message->begin == 0) {
		drop(at);
		return ends ? 1 : keep(parts, stream, message);
	}
	if (!*at || !continues(&(*at)->message, message)) {
		return 0;
	}
	copy(&(*at)->message, message, message->begin);
	(*at)->message.end = message->end;
	if (ends) {
		copy(message, &(*at)->message, 0);
		drop(at);
	}
	return ends;
}

size_t smd_epoch_parts_bytes(const struct smd_epoch_parts *parts)
{
	size_t bytes = 0;

	for (const struct smd_epoch_part *part = parts->first; part; part = part->next) {
		bytes += sizeof(*part);
	}
	return bytes;
}

void smd_epoch_parts_free(struct smd_epoch_parts *parts)
{
	while (parts->first) {
		drop(&parts->first);
	}
}
