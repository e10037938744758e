/*
 * The connection to the agent of one host: who has come, what it says of its host, and when it is
 * lost. It hands on frames and decides nothing (specs/design/agent-protocol.md, "States").
 */
#ifndef SMD_RUNNER_HOST_H
#define SMD_RUNNER_HOST_H

#include <stdint.h>

#include "orchestrator/runner/addresses.h"
#include "worker/agent/wire/link.h"
#include "worker/agent/wire/message.h"

/* X(name, meaning) */
#define SMD_HOST_STATES(X)                                                                         \
	X(EXPECTED, "its agent has not come yet")                                                  \
	X(GREETED, "it is known, and has no ports yet")                                            \
	X(READY, "replicas can be started there")                                                  \
	X(LOST, "it is gone, and what ran there is")                                               \
	X(CLOSED, "it was told that the job is over")

enum smd_host_state {
#define X(name, meaning) SMD_HOST_##name,
	SMD_HOST_STATES(X)
#undef X
};

struct smd_run_host;

struct smd_host_callbacks {
	/* It has been greeted: its facts are there. */
	void (*on_greeted)(void *owner, struct smd_run_host *host);
	/* PORTS, STARTED, OUTPUT or ENDED has come. -errno with a text ends the connection. */
	int (*on_message)(void *owner, struct smd_run_host *host,
		const struct smd_agent_message *message, struct smd_error *error);
	/* The host is lost; `reason` names it. */
	void (*on_lost)(void *owner, struct smd_run_host *host, const char *reason);
};

struct smd_run_host {
	int number;
	enum smd_host_state state;
	int pool;
	int slots;
	int is_local;
	int is_tcp;
	char name[SMD_FACTS_HOST_SIZE]; /* as the engine calls it */
	struct smd_agent_link *link;    /* NULL: there is no connection */
	struct smd_host_facts facts;    /* once greeted */
	uint16_t *ports;                /* once ready */
	size_t nports;
	size_t nused;    /* of these, from the first on */
	int is_asked;    /* for one more */
	char no_port[SMD_EXIT_REASON_SIZE]; /* why it has none; or empty */
	struct smd_host_rails rails;        /* by which others reach it, once placed */
	char leaving[SMD_EXIT_REASON_SIZE]; /* why its agent goes by itself; or empty */
	int cools_down; /* replicas have failed on it too often: none is started there again */
	char over[SMD_EXIT_REASON_SIZE];    /* why its connection has ended, or it is lost, */
	uint64_t over_ns; /* then; the engine may know more, for a moment. 0: it has not */
	const struct smd_host_callbacks *callbacks;
	void *owner;
};

/* An agent that has connected, and has not said yet whose it is. */
struct smd_agent_greeting;

/* Finds the host for the agent that says it is number `number`; NULL with a text: there is none. */
typedef struct smd_run_host *smd_host_find_fn(void *owner, int number, struct smd_error *error);

struct smd_greeting_options {
	int read_fd;
	int write_fd;
	const uint8_t *key;  /* NULL: plain */
	unsigned silence_ms;
	const char *where;        /* of whom messages speak: "host n1" */
	struct smd_run_host *host; /* whose agent it must be; NULL: `find` knows */
	smd_host_find_fn *find;
	/* It is over: the agent is its host's, or not taken. */
	void (*on_done)(void *owner, struct smd_agent_greeting *greeting);
	void *owner;
};

/* Takes over the descriptors. 0 or -errno with a text. */
int smd_greeting_open(struct smd_agent_greeting **out, struct event_base *base,
	const struct smd_greeting_options *options, struct smd_error *error);
void smd_greeting_close(struct smd_agent_greeting *greeting);

/*
 * What a reduction server on such a host is told that it carries, in Mbit/s: its part of all
 * rails. 0: nothing. Where there are RDMA devices it finds out by itself: they may
 * be faster than the interfaces, which its lanes then only begin on.
 */
unsigned smd_run_host_server_mbps(
	const struct smd_host_facts *facts, const struct smd_host_rails *rails, unsigned servers);
/* Then it is told how many they are that share what it finds. 0: nothing. */
unsigned smd_run_host_server_parts(
	const struct smd_host_facts *facts, const struct smd_host_rails *rails, unsigned servers);

/* Gives a host up whose connection has ended, when its engine has had time to say why. */
void smd_run_host_turn(struct smd_run_host *host);

/* Whether it is about to be given up, unless it says something soon. */
int smd_run_host_may_be_lost(const struct smd_run_host *host);

/* Gives the host up, if it is not yet. The reason is given its name if it does not begin with it. */
void smd_run_host_lose(struct smd_run_host *host, const char *reason);

/* Tells the agent that the job is over, or closes the connection. */
void smd_run_host_close(struct smd_run_host *host);
void smd_run_host_clear(struct smd_run_host *host);

#endif
