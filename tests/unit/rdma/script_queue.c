/* The completion queues of the script. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/rdma/script_parts.h"

/* A completion, and which of its pair's sends leave the queue when it is taken. */
struct entry {
	struct ibv_wc completion;
	struct script_pair *pair; /* NULL: of none, or it has gone */
	unsigned retires;
};

struct script_queue {
	struct ibv_cq cq; /* first */
	struct ibv_comp_channel channel;
	struct entry *entries; /* [depth], a ring */
	uint32_t depth;
	uint32_t begin;
	uint32_t end;
	bool armed;
	atomic_uint pairs;
};

struct script_queue *script_queue_of(const struct smd_verbs_queue *queue)
{
	return (struct script_queue *)queue->cq;
}

int smd_verbs_queue_create(
	struct ibv_context *context, uint32_t depth, int vector, struct smd_verbs_queue *out)
{
	struct script_queue *queue;
	int err = script_fault(SCRIPT_queue_create);

	if (vector < 0 || vector >= context->num_comp_vectors) {
		script_stop("a vector of %d is wanted, of %d", vector, context->num_comp_vectors);
	}
	if (err) {
		return err;
	}
	script.vectors |= 1u << vector;
	queue = calloc(1, sizeof(*queue));
	queue->channel.context = context;
	queue->channel.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	queue->entries = calloc(depth, sizeof(*queue->entries));
	queue->depth = depth;
	out->channel = &queue->channel;
	out->cq = &queue->cq;
	script.live++;
	return 0;
}

void smd_verbs_queue_destroy(struct smd_verbs_queue *outer)
{
	struct script_queue *queue = script_queue_of(outer);

	if (queue->pairs) {
		script_stop("a completion queue was destroyed before its pairs");
	}
	close(queue->channel.fd);
	free(queue->entries);
	free(queue);
	script.live--;
}

int smd_verbs_queue_resize(struct smd_verbs_queue *outer, uint32_t depth)
{
	struct script_queue *queue = script_queue_of(outer);
	int err = script_fault(SCRIPT_queue_resize);
	struct entry *entries;
	uint32_t n = 0;

	if (err) {
		return err;
	}
	entries = calloc(depth, sizeof(*entries));
	for (; queue->begin != queue->end; queue->begin++) {
		entries[n++] = queue->entries[queue->begin % queue->depth];
	}
	free(queue->entries);
	queue->entries = entries;
	queue->depth = depth;
	queue->begin = 0;
	queue->end = n;
	script.resizes++;
	return 0;
}

int smd_verbs_queue_arm(struct smd_verbs_queue *queue)
{
	int err = script_fault(SCRIPT_queue_arm);

	script_queue_of(queue)->armed = err == 0;
	return err;
}

void smd_verbs_queue_quiet(struct smd_verbs_queue *queue)
{
	uint64_t n;

	(void)!read(queue->channel->fd, &n, sizeof(n));
}

int smd_verbs_queue_poll(struct smd_verbs_queue *outer, struct ibv_wc *completions, int n)
{
	struct script_queue *queue = script_queue_of(outer);
	int err = script_fault(SCRIPT_queue_poll);
	int got = 0;

	if (err) {
		return err;
	}
	script_lock();
	for (; got < n && queue->begin != queue->end; queue->begin++) {
		struct entry *entry = &queue->entries[queue->begin % queue->depth];

		if (entry->pair) {
			script_pair_retire(entry->pair, entry->retires);
		}
		completions[got++] = entry->completion;
	}
	script_unlock();
	return got;
}

void script_queue_push(struct script_queue *queue, struct script_pair *pair, unsigned retires,
	const struct ibv_wc *completion)
{
	const uint64_t one = 1;

	if (queue->end - queue->begin == queue->depth) {
		script_stop("a completion queue of %u overflows", queue->depth);
	}
	queue->entries[queue->end++ % queue->depth] = (struct entry){*completion, pair, retires};
	if (queue->end - queue->begin > script.completions_most) {
		script.completions_most = queue->end - queue->begin;
	}
	if (queue->armed) {
		queue->armed = false;
		(void)!write(queue->channel.fd, &one, sizeof(one));
	}
}

void script_queue_join(struct script_queue *queue)
{
	queue->pairs++;
}

void script_queue_leave(struct script_queue *queue, const struct script_pair *pair)
{
	uint32_t kept = queue->begin;

	for (uint32_t i = queue->begin; i != queue->end; i++) {
		struct entry *entry = &queue->entries[i % queue->depth];

		if (entry->pair != pair || !script.forgets) {
			queue->entries[kept % queue->depth] = *entry;
			if (entry->pair == pair) {
				queue->entries[kept % queue->depth].pair = NULL;
			}
			kept++;
		}
	}
	queue->end = kept;
	queue->pairs--;
}
