/*
 * A lost server is tried again in the background: another may have been started in its place
 * (specs/design/epochs.md). So is one that was added, until it is there. On the owner of the
 * progress engine, without a thread of its own.
 *
 * Attempts are 0.25 s apart, twice as long each time, at most 5 s. One that is there again must be
 * of as many shards as the one before, and take chunks as large; then communicators hear of it.
 */
#ifndef SMD_LIBSUMMAND_RECONNECTION_H
#define SMD_LIBSUMMAND_RECONNECTION_H

#include <stdbool.h>
#include <stdint.h>

struct event;
struct smd_context;
struct smd_remote;
struct smd_target;

/* A target's; all zeros before it was ever lost. */
struct smd_reconnection {
	struct event *timer; /* the next attempt, or the latest end of the one that is under way */
	unsigned delay_ms;
	bool under_way;
	uint64_t began_ns; /* since then, */
	bool answered;     /* and the server has said something */
	bool hurried;      /* somebody waits for it, who has no other server, */
	uint64_t hurry_ns; /* until then, and it is tried again and again */
	uint64_t first_ns; /* the first attempt of one that was added */
	bool told;         /* of a server there that cannot be used, or of one that was added and
			      cannot be reached, */
	bool serves;       /* or of one that some communicator uses again; */
	bool served;       /* it has at some time, since it was added */
	uint64_t since_ns; /* it is there again; 0: it has not been yet */
};

/* The target is lost, and others are left. */
void smd_reconnection_begin(struct smd_context *context, struct smd_target *target);

/* Some communicator has no other left: those of them that are lost are tried at once, and again
 * for 0.5 s: whoever ends servers may start them again. One that answers meanwhile has the time
 * that lanes take. */
void smd_reconnection_hurry(struct smd_context *context, uint64_t targets);

/* Whether one is just being tried so. */
bool smd_reconnection_tries(const struct smd_context *context);

/* The context fails, if no server is left, and none is just being tried so. */
void smd_reconnection_check_left(struct smd_context *context);

/* A shard of the target that is tried again has said WELCOME; or one cannot be had. */
void smd_reconnection_welcomed(struct smd_context *context, struct smd_remote *remote);
void smd_reconnection_missed(
	struct smd_context *context, struct smd_target *target, int err, const char *text);

/* These are in the table of some communicator again. */
void smd_reconnection_tell(struct smd_context *context, uint64_t targets);

void smd_reconnection_end(struct smd_reconnection *reconnection);

#endif
