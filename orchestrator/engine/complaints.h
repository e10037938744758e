/*
 * Complaints: the last words of a command on its standard error, which a message about its end
 * quotes. Where nobody listens to them there are none.
 */
#ifndef SMD_ENGINE_COMPLAINTS_H
#define SMD_ENGINE_COMPLAINTS_H

#include <event2/event.h>
#include <stddef.h>

#define SMD_COMPLAINTS_MAX 1024

/* Zero: nobody listens. It stays where it is while somebody does. */
struct smd_complaints {
	struct event *readable; /* the command's standard error; NULL: nobody listens, any more */
	char words[SMD_COMPLAINTS_MAX + 1];
	size_t length;
};

/* *out: the command's end. 0 or -errno. */
int smd_complaints_open(struct smd_complaints *complaints, struct event_base *base, int *out);
void smd_complaints_close(struct smd_complaints *complaints);

/* Whole lines, as many as a message has room for, in one line without what a terminal would take
 * for its own; what was said up to now. */
const char *smd_complaints_last(struct smd_complaints *complaints);

#endif
