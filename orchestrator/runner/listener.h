/* Where agents connect to that come by TCP. */
#ifndef SMD_RUNNER_LISTENER_H
#define SMD_RUNNER_LISTENER_H

#include "orchestrator/runner/host.h"
#include "worker/agent/wire/invitation.h"

struct smd_runner_listener;

struct smd_runner_listener_options {
	const uint8_t *key;
	unsigned silence_ms;
	smd_host_find_fn *find;
	void *owner;
};

/* Listens on a free port of every address. 0 or -errno with a text. */
int smd_runner_listener_open(struct smd_runner_listener **out, struct event_base *base,
	const struct smd_runner_listener_options *options, struct smd_error *error);
void smd_runner_listener_close(struct smd_runner_listener *listener);

/* Fills in the addresses by which agents may reach it; the loopback's come last. */
void smd_runner_listener_addresses(
	const struct smd_runner_listener *listener, struct smd_invitation *invitation);

#endif
