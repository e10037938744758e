/*
 * One timer that looks at all lanes of a context from time to time.
 *
 * A process may have thousands of lanes. A timer for each of them would wake its thread as often as
 * there are lanes in a period; this one wakes it once.
 */
#ifndef SMD_LIBSUMMAND_LOOKOUT_H
#define SMD_LIBSUMMAND_LOOKOUT_H

#include <stdbool.h>
#include <sys/queue.h>

struct event;
struct event_base;

/* A part of what is looked at. */
struct smd_looked_at {
	/* May begin and end looking at any. In how many milliseconds it should be looked at again, if
	 * that is before the period is over; 0: it need not. */
	unsigned (*look)(struct smd_looked_at *object);
	bool listed;
	LIST_ENTRY(smd_looked_at) link;
};

/* All zero before the first one. */
struct smd_lookout {
	struct event *timer;
	unsigned period_ms;
	LIST_HEAD(, smd_looked_at) objects; /* the timer is pending while there are some */
	struct smd_looked_at *next;         /* of the look that is under way */
};

/* Looks at the object about every `period_ms`, which is the same for all, or more often. -ENOMEM. */
int smd_lookout_begin(struct smd_lookout *lookout, struct event_base *base, unsigned period_ms,
	struct smd_looked_at *object);
/* No more; also of an object that is not looked at. */
void smd_lookout_end(struct smd_lookout *lookout, struct smd_looked_at *object);

/* Nothing is looked at any more. */
void smd_lookout_free(struct smd_lookout *lookout);

#endif
