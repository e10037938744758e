/*
 * A descriptor of the caller's, such as standard output, that is written without waiting for who
 * reads it: what is not taken yet is kept.
 */
#ifndef SMD_RUNNER_OUTLET_H
#define SMD_RUNNER_OUTLET_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

/* Nobody waits for a reader for longer than it takes this much in this time. */
#define SMD_OUTLET_MAX        (8u << 20)
#define SMD_OUTLET_PATIENCE_S 5

struct smd_outlet {
	int fd;      /* -1: nothing can be written to it any more */
	int is_own;  /* the descriptor is this object's to close, and never blocks */
	int is_file; /* it never blocks for long */
	int is_terminal;
	int error;             /* errno of what ended it; 0: nothing */
	struct evbuffer *kept; /* not taken yet */
	struct event *writable;
	uint64_t full_ns; /* since when there has been too much; 0: there is not */
	int drops;        /* the reader's time is over: lines are counted and not kept */
	uint64_t dropped; /* lines, and nobody was told */
};

/* The descriptor is borrowed. One that is closed is an outlet that takes all and writes nothing.
 * 0 or -ENOMEM. */
int smd_outlet_open(struct smd_outlet *outlet, int fd);

/* From now on what is kept is written as soon as somebody reads. 0 or -ENOMEM. */
int smd_outlet_attach(struct smd_outlet *outlet, struct event_base *base);
void smd_outlet_detach(struct smd_outlet *outlet);

void smd_outlet_add(struct smd_outlet *outlet, const char *bytes, size_t count);

/* Writes as much as is taken now. Without an event base it waits until all is. */
void smd_outlet_flush(struct smd_outlet *outlet);

/* Whether something is kept. */
int smd_outlet_is_pending(const struct smd_outlet *outlet);

/* Whether whoever adds to it should wait. Never for long: then `drops` is set, until there is room
 * again. An impatient caller does not wait at all. */
int smd_outlet_is_full(struct smd_outlet *outlet, int is_impatient);

/* Whether it is still so full that lines are dropped. */
int smd_outlet_drops(struct smd_outlet *outlet);

/* What is kept is lost. If there is something, nothing is written any more. */
void smd_outlet_abandon(struct smd_outlet *outlet);

void smd_outlet_close(struct smd_outlet *outlet);

#endif
