/*
 * An event loop that one thread turns at a time, and the bell that other threads ring.
 *
 * The loop takes no locks: what other threads want of it, they leave where it will look, and ring.
 */
#ifndef SMD_TRANSPORT_LOOP_H
#define SMD_TRANSPORT_LOOP_H

struct event;
struct event_base;

/* NULL: out of memory or descriptors. Free it with event_base_free(). */
struct event_base *smd_loop_create(void);

struct smd_bell {
	int fd;
	struct event *event;
	void (*on_ring)(void *owner);
	void *owner;
};

/* on_ring() is called on the loop, once for any number of rings before. -ENOMEM, -EMFILE. */
int smd_bell_create(
	struct smd_bell *bell, struct event_base *base, void (*on_ring)(void *owner), void *owner);
/* Before its loop is freed. Nothing for a bell that is all zeros. */
void smd_bell_destroy(struct smd_bell *bell);

/* From any thread, as long as the bell is there. */
void smd_bell_ring(struct smd_bell *bell);

#endif
