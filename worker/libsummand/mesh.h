/*
 * A *mesh*: a TCP lane between each two ranks of a communicator (specs/design/exchange.md).
 *
 * A rank listens, tells its place to the others by whatever they share (meeting.h), and connects to
 * those below it; those above connect to it. Both ends show that they have the job's token and the
 * secret of the place. When all lanes are there it no longer listens. A lane that ends then is not
 * made again.
 *
 * A mesh knows nothing of operations: frames go to its user. All on the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_MESH_H
#define SMD_LIBSUMMAND_MESH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/transport.h"
#include "worker/libsummand/mesh_words.h"

struct event;
struct event_base;
struct smd_config;
struct smd_mesh;

#define SMD_MACHINE_BITS 48

/* Where a rank listens, and what who connects must know. */
struct smd_mesh_place {
	uint8_t address[16]; /* IPv6, or IPv4 as a part of it */
	uint16_t port;
	uint64_t machine; /* which, in SMD_MACHINE_BITS; 0: not known */
	uint8_t secret[SMD_NONCE_SIZE];
};

/* Another rank. */
struct smd_mesh_peer {
	struct smd_mesh *mesh;
	uint16_t rank;
	struct smd_mesh_place place;
	struct smd_lane *lane;         /* NULL: none yet, or it has ended */
	bool made;                     /* both ends have shown who they are; */
	bool leaves;                   /* that rank has said so */
	bool lost;                     /* it has ended since, */
	uint64_t lost_ns;              /* at that time, */
	char why[96];                  /* for this reason */
	char name[SMD_STRING_MAX + 1]; /* the replica's */
	struct smd_mesh_words words;   /* that were said to make it */
	uint8_t control[SMD_CONTROL_MAX];
};

/* Somebody who has connected, and may be a rank. */
struct smd_mesh_guest {
	struct smd_mesh *mesh;
	struct smd_lane *lane;
	uint64_t since_ns;
	bool called;   /* has said who it is, */
	bool answered; /* and this rank too */
	struct smd_mesh_words words;
	uint8_t control[SMD_CONTROL_MAX];
	LIST_ENTRY(smd_mesh_guest) link;
};

/* Whoever uses it. */
struct smd_mesh_user {
	/* All lanes are there; or some cannot be had, for the reason in mesh->why. Once. */
	void (*on_made)(struct smd_mesh *mesh, bool all);
	/* As a lane's own callbacks, of a lane that is made. */
	int (*on_header)(struct smd_mesh_peer *peer, const struct smd_frame *frame, void **payload,
		struct smd_error *error);
	int (*on_frame)(struct smd_mesh_peer *peer, const struct smd_frame *frame, void *payload,
		struct smd_error *error);
	/* Its lane, which was made, has ended and been closed. */
	void (*on_lost)(struct smd_mesh_peer *peer);
	uint32_t largest; /* payload of elements */
};

struct smd_mesh {
	const struct smd_mesh_user *user;
	void *owner; /* the user's */
	const struct smd_config *config;
	struct event_base *base;
	uint64_t id; /* the ranks' word for it */
	uint16_t nranks;
	uint16_t rank;
	struct smd_mesh_place place; /* this rank's */
	struct smd_listener *listener;
	struct event *late;           /* the time to make it is over */
	unsigned missing;             /* lanes */
	bool concluded;               /* on_made() has been called */
	struct smd_error why;         /* it cannot be had */
	struct smd_lane_counts ended; /* of lanes that are closed */
	struct smd_mesh_peer *peers;  /* [nranks]; the own one is not used */
	LIST_HEAD(, smd_mesh_guest) guests;
	unsigned nguests;
};

/* Listens at that address. NULL with a text: it cannot be had. */
struct smd_mesh *smd_mesh_create(struct event_base *base, const struct smd_config *config,
	const uint8_t address[16], uint16_t nranks, uint16_t rank, const struct smd_mesh_user *user,
	void *owner, struct smd_error *error);

/* All ranks listen at these places, of mesh `id`: connects. on_made() follows, maybe at once. A
 * mesh that has given up, or is closed, stays so. */
void smd_mesh_connect(struct smd_mesh *mesh, uint64_t id, const struct smd_mesh_place *places);

/* Closes all lanes, each send's done() is called; nothing is told of it. May be called inside any
 * callback. */
void smd_mesh_close(struct smd_mesh *mesh);

/* What its lanes have moved. */
void smd_mesh_count(const struct smd_mesh *mesh, struct smd_lane_counts *sum);

/* After smd_mesh_close(), not inside a callback. */
void smd_mesh_free(struct smd_mesh *mesh);

#endif
