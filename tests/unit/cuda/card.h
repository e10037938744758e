/*
 * A transport with places whose network card reads and writes device memory, in this process.
 *
 * It is the loopback (or TCP, where the address is TCP's), and takes the place of the transport
 * "fault" in programs that are linked with it; of "rdma" where it is built for that. Frames and
 * small payloads are copied by the processor, which crashes where that is device memory. A large
 * payload for which there is a place is written there at once; device memory is reached through the
 * dma-buf that stands for it, as it was when it was registered. Each lane has a card of its own.
 * What rdma's users must not do ends the program.
 */
#ifndef SMD_TESTS_CARD_H
#define SMD_TESTS_CARD_H

#include <stdbool.h>

/* Payloads of more bytes than that are not copied, and no payload from and to device memory. */
#define CARD_EAGER 1024

/* What is to happen. */
struct card_plan {
	int refuse;              /* 0, or what declaring device memory fails with, */
	int refuse_shard;        /* on lanes to that shard of each server; -1: on all */
	unsigned no_place_every; /* every so manieth place at the shard is "none"; 0: never */
	unsigned no_write_every; /* the same: a result that is not written to its place */
	/* The server that listens as this one, from 1, says nothing from its so manieth result on,
	 * which is written: as if it had been killed then. 0: none. */
	unsigned mute_server;
	unsigned mute_from;
	/* The same, but this one of all its results is the last that is heard. 0: none. */
	unsigned mute_after;
};

/* Payloads that are not to be copied, which have crossed. */
struct card_counts {
	unsigned from_device; /* inputs that a card has read */
	unsigned from_host;   /* the others */
	unsigned to_device;   /* results that a card has written */
	unsigned to_host;     /* the others, */
	unsigned to_host_by_card; /* and of these what one has written */
	unsigned host_registered; /* host memory of workers, now, on all lanes */
	unsigned host_registrations; /* of it, so far */
	unsigned registered;      /* device memory, now */
	unsigned registered_most; /* of one lane, at once */
	bool muted;               /* a server says nothing any more */
};

/* Before a pool is started: what it does, and all counts are 0. */
void card_reset(struct card_plan plan);
/* From now on: what declaring device memory fails with; 0: it does not. */
void card_refuse(int err);
struct card_counts card_counts(void);

#endif
