/*
 * An event loop that one thread turns at a time, and the wakeup by which other threads end its
 * sleep.
 *
 * The loop takes no locks: what other threads want of it, they leave where it will look, and
 * signal.
 */
#ifndef SMD_TRANSPORT_LOOP_H
#define SMD_TRANSPORT_LOOP_H

struct event;
struct event_base;

/* NULL: out of memory or descriptors. */
struct event_base *smd_loop_create(void);
/* Does what is ready now, and does not wait. Once: with EVLOOP_NONBLOCK alone libevent goes round until it finds
 * nothing, and a caller whose operation is done would learn that only then. */
void smd_loop_look(struct event_base *base);
/* After its lanes were closed and it has turned once more. NULL is allowed. */
void smd_loop_free(struct event_base *base);

struct smd_wakeup {
	int fd;
	struct event *event;
	void (*on_signal)(void *owner);
	void *owner;
};

/* on_signal() is called on the loop, once for any number of signals before. -ENOMEM, -EMFILE. */
int smd_wakeup_create(struct smd_wakeup *wakeup, struct event_base *base,
	void (*on_signal)(void *owner), void *owner);
/* Before its loop is freed. Nothing for a wakeup that is all zeros. */
void smd_wakeup_destroy(struct smd_wakeup *wakeup);

/* From any thread, as long as the wakeup is there. */
void smd_wakeup_signal(struct smd_wakeup *wakeup);

#endif
