/* Asks an engine for hosts, invites and greets their agents, and places the replicas. */
#include "orchestrator/runner/allocation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/endpoints.h"
#include "orchestrator/runner/listener.h"
#include "orchestrator/runner/placing.h"
#include "orchestrator/runner/policy.h"
#include "reduction_server/base/clock.h"
#include "worker/agent/host/gpu.h"
#include "worker/agent/wire/invitation.h"

static void report(struct smd_hosts *hosts, enum smd_event_kind kind, const char *text)
{
	hosts->take_event(hosts->arg, &(struct smd_event){.kind = kind, .text = text});
}

/* ---- asking ---- */

static struct smd_run_host *find_host(void *owner, int number, struct smd_error *error)
{
	struct smd_hosts *hosts = owner;
	struct smd_run_host *host =
		number >= 0 && number < hosts->nhosts ? &hosts->hosts[number] : NULL;

	if (!host || !host->is_tcp) {
		smd_error_set(error, ESRCH,
			"an agent came that says it is of host number %d, and there is none", number);
		return NULL;
	}
	return host;
}

static unsigned silence_ms_of(const struct smd_hosts *hosts, int is_local)
{
	return is_local ? 0 : hosts->silence_s * 1000;
}

static int open_listener(struct smd_hosts *hosts)
{
	const struct smd_runner_listener_options options = {.key = hosts->key,
		.silence_ms = silence_ms_of(hosts, 0),
		.find = find_host,
		.owner = hosts};

	return hosts->listener
		       ? 0
		       : smd_runner_listener_open(&hosts->listener, hosts->base, &options, NULL);
}

static char *invite(void *arg, int host, enum smd_carrier_kind kind, int is_local)
{
	struct smd_hosts *hosts = arg;
	struct smd_invitation invitation = {.protocol = SMD_AGENT_PROTOCOL,
		.version = SUMMAND_VERSION,
		.host = host,
		.is_local = is_local,
		.is_tcp = kind == SMD_CARRIER_TCP,
		.silence_s = silence_ms_of(hosts, is_local) / 1000,
		.grace_s = is_local ? 0 : hosts->launcher.grace_s};
	char *line = NULL;

	snprintf(invitation.job, sizeof(invitation.job), "%s", hosts->launcher.job->id);
	if (!invitation.is_tcp) {
		return smd_invitation_encode(&invitation);
	}
	if (open_listener(hosts) == 0) {
		smd_runner_listener_addresses(hosts->listener, &invitation);
		memcpy(invitation.key, hosts->key, sizeof(hosts->key));
		line = smd_invitation_encode(&invitation);
		explicit_bzero(invitation.key, sizeof(invitation.key));
	}
	return line;
}

static void make_request(struct smd_hosts *hosts)
{
	const struct smd_job *job = hosts->launcher.job;

	hosts->request = (struct smd_allocation_request){.name = hosts->request_name,
		/* Where the spec says nothing, the cluster knows better than Vertex's seven days. */
		.time_limit_s =
			job->timeout_s == SMD_JOB_TIMEOUT_DEFAULT_S ? 0 : job->timeout_s,
		.grace_s = hosts->launcher.grace_s,
		.invite = invite,
		.invite_arg = hosts,
		.avoids = hosts->takes_all ? NULL : smd_cool_down_has,
		.avoids_arg = &hosts->cool_down};
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];
		struct smd_pool_request *request = &hosts->request.pools[i];

		request->replicas = pool->replica_count;
		request->slots = smd_placing_slots(job, i);
		request->machine = hosts->machines[i];
		request->machine_type = pool->machine_type;
		if (pool->replica_count > 0 && pool->accelerator_type &&
			!smd_job_pool_has_tpus(pool)) {
			request->gpus = pool->accelerator_count;
			request->gpu_type = pool->accelerator_type;
		}
	}
}

static void take_engine_event(void *arg, const struct smd_engine_event *event);

int smd_hosts_allocate(struct smd_hosts *hosts, struct smd_error *error)
{
	int ret;

	smd_allocation_forget(hosts);
	free(hosts->request_name);
	if (asprintf(&hosts->request_name, "summand-%s", hosts->launcher.job->display_name) < 0) {
		hosts->request_name = NULL;
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	smd_cool_down_read(&hosts->cool_down);
	make_request(hosts);
	hosts->has_lost = 0;
	hosts->leaves_out = 0;
	hosts->ending_ns = 0;
	hosts->is_final = 0;
	hosts->is_placed = 0;
	hosts->join_by_ns = 0;
	hosts->engine->base = hosts->base;
	hosts->engine->take_event = take_engine_event;
	hosts->engine->arg = hosts;
	hosts->is_allocated = 1;
	ret = hosts->engine->ops->allocate(hosts->engine, &hosts->request, error);
	hosts->is_allocated = ret == 0;
	return ret;
}

/* ---- hosts that come and go ---- */

static void lose_all(struct smd_hosts *hosts, const char *text)
{
	hosts->has_lost = 1;
	for (int i = 0; i < hosts->nhosts; i++) {
		smd_run_host_lose(&hosts->hosts[i], text);
	}
}

#define TOLD ": its agent was told to end" /* by a signal, as it says itself */

/* A replica may have had the cluster's signal before its agent had it. */
static int was_told_too(const struct smd_hosts *hosts, const struct smd_replica *replica)
{
	return replica->state == SMD_REPLICA_FAILED && !replica->end.is_lost &&
	       smd_policy_is_taken(&replica->end, replica->ended_ns, hosts->ending_ns);
}

/* Why, the engine knows; it may say so only after the replicas have ended. */
static void note_ending(struct smd_hosts *hosts, const char *text)
{
	hosts->has_lost = 1;
	hosts->ending_ns = smd_clock_ns();
	for (int i = 0; i < hosts->nhosts; i++) {
		snprintf(hosts->hosts[i].leaving, sizeof(hosts->hosts[i].leaving), "%s", text);
	}
	for (size_t i = 0; i < hosts->count; i++) {
		const struct smd_replica *replica = &hosts->replicas[i];
		struct smd_exit *end = &hosts->replicas[i].end;
		char *told = end->is_lost ? strstr(end->reason, TOLD) : NULL;

		if (was_told_too(hosts, replica) && hosts->host_of[replica->pool]) {
			int host = hosts->host_of[replica->pool][replica->index];

			end->is_lost = 1;
			snprintf(end->reason, sizeof(end->reason), "host %s: %s",
				hosts->hosts[host].name, text);
		} else if (told) {
			snprintf(told, sizeof(end->reason) - (size_t)(told - end->reason), ": %s",
				text);
		}
	}
}

static unsigned count_ports(const struct smd_job *job)
{
	return (unsigned)smd_job_replica_count(job) + 1; /* and MASTER_PORT */
}

static void on_greeted(void *owner, struct smd_run_host *host)
{
	struct smd_hosts *hosts = owner;
	unsigned ports = count_ports(hosts->launcher.job);

	if (host->slots > 0 && (unsigned)host->slots + 1 < ports) {
		ports = (unsigned)host->slots + 1;
	}
	ports += smd_job_has_servers(hosts->launcher.job) &&
		 hosts->launcher.job->hybrid != SMD_HYBRID_OFF; /* of a reducer */
	smd_agent_link_send_json(
		host->link, SMD_AGENT_RESERVE, json_pack("{s:i}", "ports", (int)ports));
}

static int on_message(void *owner, struct smd_run_host *host,
	const struct smd_agent_message *message, struct smd_error *error)
{
	struct smd_hosts *hosts = owner;

	return message->kind == SMD_AGENT_PORTS
		       ? 0
		       : hosts->take_message(hosts, host, message, error);
}

/* For placing: all hosts, of which lost ones take nothing. */
static void list_places(const struct smd_hosts *hosts, struct smd_place *places)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		const struct smd_run_host *host = &hosts->hosts[i];

		places[i] = (struct smd_place){.name = host->name,
			.pool = host->state == SMD_HOST_LOST ? SMD_PLACE_NO_POOL : host->pool,
			.slots = host->slots,
			.gpus = (int)host->facts.ngpus};
	}
}

/* Whether the hosts that are not lost have slots enough; their GPUs are not known yet. */
static int others_may_suffice(const struct smd_hosts *hosts)
{
	struct smd_place *places = calloc((size_t)hosts->nhosts, sizeof(*places));
	int *host_of[SMD_JOB_POOLS_MAX] = {NULL};
	struct smd_error error = {""};
	int ret = places ? 0 : -ENOMEM;

	if (!ret) {
		list_places(hosts, places);
		ret = smd_placing_decide(hosts->launcher.job, places, (size_t)hosts->nhosts, 1,
			host_of, &error);
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		free(host_of[pool]);
	}
	free(places);
	return ret == 0;
}

static const struct smd_run_host *next_absent(const struct smd_hosts *hosts, int from)
{
	while (from < hosts->nhosts && hosts->hosts[from].state != SMD_HOST_LOST) {
		from++;
	}
	return from < hosts->nhosts ? &hosts->hosts[from] : NULL;
}

/* Before the job has its places a host is lost only if it is needed; the first one is told. */
static void on_lost(void *owner, struct smd_run_host *host, const char *reason)
{
	struct smd_hosts *hosts = owner;

	if (hosts->is_placed) {
		hosts->has_lost = 1;
		report(hosts, SMD_EVENT_HOST_LOST, reason);
		hosts->end_tasks_of(hosts, host, reason);
		return;
	}
	smd_cool_down_blame(&hosts->cool_down, host->name, 1);
	if (hosts->has_lost || !others_may_suffice(hosts)) {
		hosts->has_lost = 1;
		report(hosts, SMD_EVENT_NO_HOSTS, next_absent(hosts, 0)->over);
	}
}

static const struct smd_host_callbacks host_callbacks = {
	.on_greeted = on_greeted, .on_message = on_message, .on_lost = on_lost};

static void on_greeting_done(void *owner, struct smd_agent_greeting *greeting)
{
	struct smd_hosts *hosts = owner;

	for (int i = 0; i < hosts->nhosts; i++) {
		if (hosts->greetings[i] == greeting) {
			hosts->greetings[i] = NULL;
		}
	}
}

/* What the engine knows of a host. */
static void take_description(struct smd_run_host *host, const struct smd_engine_host *given)
{
	host->pool = given->pool;
	host->slots = given->slots;
	host->is_local = given->is_local;
	snprintf(host->name, sizeof(host->name), "%s", given->name);
}

static void take_granted(struct smd_hosts *hosts, const struct smd_engine_event *event)
{
	int nhosts = event->nhosts;
	size_t count = nhosts > 0 ? (size_t)nhosts : 0;

	hosts->hosts = calloc(count + 1, sizeof(*hosts->hosts));
	hosts->greetings = calloc(count + 1, sizeof(struct smd_agent_greeting *));
	hosts->gpus = calloc(count + 1, sizeof(*hosts->gpus));
	hosts->first = calloc(count + 1, sizeof(*hosts->first));
	if (!hosts->hosts || !hosts->greetings || !hosts->gpus || !hosts->first || count == 0) {
		hosts->has_lost = 1;
		report(hosts, SMD_EVENT_NO_HOSTS, count ? strerror(ENOMEM) : "hosts: none");
		return;
	}
	hosts->nhosts = nhosts;
	hosts->leaves_out = event->leaves_out;
	hosts->join_by_ns =
		smd_clock_ns() + hosts->join_timeout_s * (uint64_t)SMD_SECOND_NS;
	for (int i = 0; i < nhosts; i++) {
		hosts->hosts[i] = (struct smd_run_host){.number = i,
			.pool = -1,
			.callbacks = &host_callbacks,
			.owner = hosts};
		snprintf(hosts->hosts[i].name, sizeof(hosts->hosts[i].name), "number %d", i);
		if (event->hosts) {
			take_description(&hosts->hosts[i], &event->hosts[i]);
		}
	}
}

static void take_host(struct smd_hosts *hosts, const struct smd_engine_host *given)
{
	struct smd_run_host *host = &hosts->hosts[given->number];
	char where[SMD_FACTS_HOST_SIZE + 8];
	struct smd_error error = {""};
	struct smd_greeting_options options = {.read_fd = given->read_fd,
		.write_fd = given->write_fd,
		.silence_ms = silence_ms_of(hosts, given->is_local),
		.where = where,
		.host = host,
		.on_done = on_greeting_done,
		.owner = hosts};

	take_description(host, given);
	host->is_tcp = given->read_fd < 0;
	snprintf(where, sizeof(where), "host %s", given->name);
	if (!host->is_tcp && smd_greeting_open(&hosts->greetings[given->number], hosts->base,
				     &options, &error)) {
		smd_run_host_lose(host, error.text);
	}
}

static void report_left_out(struct smd_hosts *hosts)
{
	char *text = hosts->leaves_out ? smd_cool_down_write(&hosts->cool_down) : NULL;

	report(hosts, SMD_EVENT_LEFT_OUT, text);
	free(text);
}

/* Nothing is left of the allocation; the others may have been too few, and then it is to be all. */
static void take_released(struct smd_hosts *hosts)
{
	struct smd_error error = {""};

	hosts->is_allocated = 0;
	if (!hosts->begins_again) {
		report(hosts, SMD_EVENT_RELEASED, NULL);
		return;
	}
	hosts->begins_again = 0;
	if (smd_hosts_allocate(hosts, &error)) {
		report(hosts, SMD_EVENT_NO_HOSTS, error.text);
	}
}

static void take_engine_event(void *arg, const struct smd_engine_event *event)
{
	struct smd_hosts *hosts = arg;

	hosts->is_final |= event->is_final;
	switch (event->kind) {
	case SMD_ENGINE_PENDING:
		report(hosts, SMD_EVENT_WAITING, event->text);
		break;
	case SMD_ENGINE_GRANTED:
		take_granted(hosts, event);
		report_left_out(hosts);
		break;
	case SMD_ENGINE_HOST:
		if (event->host->number < hosts->nhosts) {
			take_host(hosts, event->host);
		}
		break;
	case SMD_ENGINE_ENDING:
		note_ending(hosts, event->text);
		break;
	case SMD_ENGINE_LOST:
		if (event->number < hosts->nhosts) {
			smd_run_host_lose(&hosts->hosts[event->number], event->text);
		}
		break;
	case SMD_ENGINE_FAILED:
		if (hosts->nhosts == 0) {
			hosts->has_lost = 1;
			report(hosts, SMD_EVENT_NO_HOSTS, event->text);
		}
		lose_all(hosts, event->text);
		break;
	case SMD_ENGINE_RELEASED:
		take_released(hosts);
		break;
	}
}

/* ---- placing ---- */

/* Those that are lost are not waited for. */
static int all_are_ready(const struct smd_hosts *hosts)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		if (hosts->hosts[i].state != SMD_HOST_READY &&
			hosts->hosts[i].state != SMD_HOST_LOST) {
			return 0;
		}
	}
	return hosts->nhosts > 0;
}

static int decide_places(struct smd_hosts *hosts, struct smd_error *error)
{
	struct smd_place *places = calloc((size_t)hosts->nhosts, sizeof(*places));
	int ret = places ? 0 : -ENOMEM;

	if (!ret) {
		list_places(hosts, places);
	}
	/* A single host says itself what it lacks. */
	ret = ret ? ret
		  : smd_placing_decide(hosts->launcher.job, places, (size_t)hosts->nhosts,
			    hosts->may_share || hosts->nhosts == 1, hosts->host_of, error);
	free(places);
	return ret;
}

/* Each host's GPUs go to the replicas on it. */
static int deal_gpus(struct smd_hosts *hosts, struct smd_error *error)
{
	const struct smd_job *job = hosts->launcher.job;

	for (int i = 0; i < hosts->nhosts; i++) {
		struct smd_run_host *host = &hosts->hosts[i];
		int counts[SMD_JOB_POOLS_MAX] = {0};
		char where[SMD_FACTS_HOST_SIZE + 8];
		int ret;

		for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
			for (int index = job->pools[pool].replica_count - 1; index >= 0; index--) {
				if (hosts->host_of[pool][index] == i) {
					hosts->first[i][pool] = index;
					counts[pool]++;
				}
			}
		}
		hosts->gpus[i].ids = host->facts.gpus;
		hosts->gpus[i].count = host->facts.ngpus;
		host->facts.gpus = NULL;
		host->facts.ngpus = 0;
		snprintf(where, sizeof(where), "host %s", host->name);
		ret = smd_gpus_deal_some(&hosts->gpus[i], job, counts, hosts->may_share,
			host->is_local ? NULL : where, error);
		if (ret) {
			return ret;
		}
	}
	return 0;
}

static void give_back(struct smd_hosts *hosts)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		if (hosts->greetings[i]) {
			smd_greeting_close(hosts->greetings[i]);
			hosts->greetings[i] = NULL;
		}
		smd_run_host_close(&hosts->hosts[i]);
	}
	hosts->engine->ops->release(hosts->engine);
}

/* The job begins without those that have not come; or cannot, and then that is the cause. */
static void report_placed(struct smd_hosts *hosts, const char *too_few)
{
	const struct smd_run_host *absent = next_absent(hosts, 0);

	if (too_few) {
		hosts->has_lost |= absent != NULL;
		report(hosts, SMD_EVENT_NO_HOSTS, absent ? absent->over : too_few);
		return;
	}
	while (absent) {
		report(hosts, SMD_EVENT_ABSENT, absent->over);
		absent = next_absent(hosts, absent->number + 1);
	}
	report(hosts, SMD_EVENT_PLACED, NULL);
}

static void place(struct smd_hosts *hosts)
{
	struct smd_error error = {""};
	int ret = decide_places(hosts, &error);

	ret = ret ? ret : deal_gpus(hosts, &error);
	ret = ret ? ret : smd_endpoints_fill(hosts, &error);
	hosts->is_placed = 1;
	if (ret && hosts->leaves_out) {
		hosts->takes_all = 1;
		hosts->begins_again = 1;
		give_back(hosts);
	} else if (ret) {
		smd_error_set(&error, -ret, "placement: %s", strerror(-ret));
		report_placed(hosts, error.text);
	} else {
		report_placed(hosts, NULL);
	}
}

/* ---- each turn, and the end ---- */

/* The first one that has not come and is needed is told. */
static void give_up_late(struct smd_hosts *hosts)
{
	for (int i = 0; i < hosts->nhosts && !hosts->has_lost; i++) {
		struct smd_run_host *host = &hosts->hosts[i];
		char words[SMD_EXIT_REASON_SIZE] = "it has come, and has not reserved ports";
		char text[2 * SMD_EXIT_REASON_SIZE];
		const char *name = host->name;

		if (host->state != SMD_HOST_EXPECTED && host->state != SMD_HOST_GREETED) {
			continue;
		}
		if (host->state == SMD_HOST_EXPECTED) {
			name = hosts->engine->ops->explain(
				hosts->engine, i, words, sizeof(words));
		}
		snprintf(text, sizeof(text),
			"host %s: its agent must have come within %u s (--join-timeout): %s", name,
			hosts->join_timeout_s, words);
		smd_run_host_lose(host, text);
	}
}

void smd_allocation_turn(struct smd_hosts *hosts)
{
	if (!hosts->is_allocated || hosts->is_placed || hosts->has_lost || hosts->nhosts == 0) {
		return;
	}
	if (all_are_ready(hosts)) {
		place(hosts);
	} else if (smd_clock_ns() >= hosts->join_by_ns) {
		give_up_late(hosts);
	}
}

void smd_hosts_release(struct smd_hosts *hosts)
{
	if (!hosts->is_allocated) {
		report(hosts, SMD_EVENT_RELEASED, NULL);
		return;
	}
	hosts->begins_again = 0;
	give_back(hosts);
}

void smd_allocation_forget(struct smd_hosts *hosts)
{
	struct smd_placement *placement = hosts->placement;

	smd_runner_listener_close(hosts->listener);
	hosts->listener = NULL;
	for (int i = 0; i < hosts->nhosts; i++) {
		if (hosts->greetings[i]) {
			smd_greeting_close(hosts->greetings[i]);
		}
		smd_run_host_clear(&hosts->hosts[i]);
		smd_gpus_clear(&hosts->gpus[i]);
	}
	free(hosts->hosts);
	free(hosts->greetings);
	free(hosts->gpus);
	free(hosts->first);
	hosts->hosts = NULL;
	hosts->greetings = NULL;
	hosts->gpus = NULL;
	hosts->first = NULL;
	hosts->nhosts = 0;
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		free(hosts->host_of[pool]);
		hosts->host_of[pool] = NULL;
	}
	if (placement) {
		smd_placement_forget_hosts(placement);
	}
}
