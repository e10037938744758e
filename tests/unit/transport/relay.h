/*
 * A wire between two ends, on their loop: it shows what crosses, and cuts or changes it.
 */
#ifndef SMD_TESTS_RELAY_H
#define SMD_TESTS_RELAY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_SEEN_MAX (8u << 20)

struct relay_way {
	struct relay *relay;
	int from;
	int to;
	struct event *readable;
	size_t moved;
	uint8_t *seen; /* the first RELAY_SEEN_MAX bytes */
};

struct relay {
	struct event_base *base;
	int listener;
	struct event *acceptable;
	char target[128];
	struct relay_way there; /* from the end that connects */
	struct relay_way back;
	size_t piece;   /* at most so many bytes at once; 0: any */
	size_t flip_at; /* one bit of that byte there is changed; 0: none */
	size_t cut_at;  /* after so many bytes there the wire is cut; 0: never */
};

/* Listens at a port of loopback, which takes the place of the target's in `address`. */
void relay_open(struct relay *relay, struct event_base *base, char address[128]);
void relay_close(struct relay *relay);
/* Whether these bytes have crossed, either way. */
bool relay_has_seen(const struct relay *relay, const void *bytes, size_t length);

#endif
