/* The device of the script: queue pairs, and calls that fail. */
#include "tests/unit/rdma/script.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/rdma/script_parts.h"

struct script_pair {
	struct ibv_qp qp;
	struct script_id *id;
	struct script_queue *queue;
	uint32_t sends_most;
	uint32_t receives_most;
	uint32_t inline_most;
	struct script_send *sends; /* all that were posted */
	unsigned room;
	unsigned posted;
	unsigned carried;
	unsigned acknowledged;
	unsigned retired; /* their completions were taken */
	unsigned doorbells;
	unsigned receives;
	uint64_t receive_id;
	bool broken;
};

/* Makers destroy pairs and ids while the loop's thread posts to others and polls. Recursive for
 * script.then(). */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct script script;
static struct ibv_device devices[SCRIPT_DEVICES] = {{.name = "script0"}, {.name = "script1"}};
struct ibv_context script_devices[SCRIPT_DEVICES] = {
	{.device = &devices[0], .num_comp_vectors = SCRIPT_VECTORS},
	{.device = &devices[1], .num_comp_vectors = SCRIPT_VECTORS},
};

void script_lock(void)
{
	pthread_mutex_lock(&lock);
}

void script_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

_Noreturn void script_stop(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("script: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	abort();
}

void script_reset(void)
{
	static const char *const names[] = {
#define X(name) #name,
		SCRIPT_CALLS(X)
#undef X
	};

	script = (struct script){
		.node = -1,
		.limits = {.queue_depth = 1024,
			.completions = 65536,
			.message_bytes = 1u << 30,
			.mtu = IBV_MTU_4096,
			.immediate = true,
			.windows = true,
			.invalidates = true},
		.inline_most = 256,
		.nports = 1,
		.ports = {{.name = "script0",
			.number = 1,
			.ethernet = true,
			.gid_index = 3,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
			.mbps = 100000}},
		.connects = true,
		.carries = true,
		.acknowledges = true,
	};
	for (int i = 0; i < SCRIPT_CALLS_END; i++) {
		script.calls[i].name = names[i];
	}
	script_memory_reset();
}

int script_fault(enum script_call_name name)
{
	struct script_call *call = &script.calls[name];

	call->count++;
	for (int ms = 0; atomic_load(&call->slow) && ms < SCRIPT_SLOW_MS; ms++) {
		atomic_store(&call->held, true);
		usleep(1000);
	}
	atomic_store(&call->held, false);
	return call->fail_at && (call->always ? call->count >= call->fail_at
					      : call->count == call->fail_at)
		       ? call->err
		       : 0;
}

int smd_verbs_check(struct smd_error *error)
{
	int err = script_fault(SCRIPT_check);

	return err ? smd_error_set(error, -err, "there is no RDMA device: %s", strerror(-err)) : 0;
}

void smd_verbs_forget_removed(void)
{
}

int smd_verbs_query(struct ibv_context *context, uint8_t port, struct smd_verbs_limits *out)
{
	if (context < script_devices || context >= script_devices + SCRIPT_DEVICES || port != 1) {
		script_stop("another device or port is asked for than the id's");
	}
	*out = script.limits;
	return script_fault(SCRIPT_query);
}

/* ---- queue pairs ---- */

int smd_verbs_pair_create(struct ibv_pd *domain, struct smd_verbs_queue *queue, uint32_t sends,
	uint32_t receives, uint32_t *inline_bytes, struct ibv_qp **out)
{
	static atomic_uint numbers;
	struct script_pair *pair;
	int err = script_fault(SCRIPT_pair_create);

	if (err == 0 &&
		(sends > script.limits.queue_depth || receives > script.limits.queue_depth)) {
		err = -EINVAL;
	}
	if (err == 0 && *inline_bytes > script.inline_most) {
		err = -EINVAL;
	}
	if (err) {
		return err;
	}
	pair = calloc(1, sizeof(*pair));
	pair->qp.qp_num = ++numbers & 0xffffffu;
	pair->id = script_by_hand_create(pair->qp.qp_num);
	pair->queue = script_queue_of(queue);
	script_queue_join(pair->queue);
	pair->sends_most = sends;
	pair->receives_most = receives;
	pair->inline_most = *inline_bytes; /* cards give as much as they are asked for */
	pair->qp.pd = domain;
	pair->id->pair = pair;
	pair->id->id.qp = &pair->qp;
	*out = &pair->qp;
	script.live++;
	return 0;
}

void script_pair_retire(struct script_pair *pair, unsigned sends)
{
	if (sends > pair->retired) {
		pair->retired = sends;
	}
}

static struct script_pair *pair_of_qp(const struct ibv_qp *qp)
{
	return (struct script_pair *)qp;
}

struct rdma_cm_id *script_id_of_pair(const struct ibv_qp *qp)
{
	return &pair_of_qp(qp)->id->id;
}

/* From now on tests know it by that id. */
int smd_verbs_pair_init_as(struct ibv_qp *qp, struct rdma_cm_id *id, uint16_t pkey)
{
	struct script_pair *pair = pair_of_qp(qp);
	int err = script_fault(SCRIPT_pair_init);

	script.pkey = pkey;
	if (err) {
		return err;
	}
	script_lock();
	script_by_hand_destroy(pair->id);
	pair->id = script_id_of(id);
	pair->id->pair = pair;
	id->qp = qp;
	script_unlock();
	return 0;
}

int smd_verbs_pair_join_as(struct ibv_qp *qp, struct rdma_cm_id *id, struct smd_verbs_path *path)
{
	int err = script_fault(SCRIPT_pair_join);

	if (pair_of_qp(qp)->id != script_id_of(id)) {
		script_stop("a queue pair is joined as another id says");
	}
	path->mtu = script.limits.mtu;
	script.path = *path;
	script_id_of(id)->joined |= err == 0;
	return err;
}

void script_pair_lose_id(struct script_pair *pair)
{
	const bool joined = pair->id->joined;

	pair->id = script_by_hand_create(pair->qp.qp_num);
	pair->id->pair = pair;
	pair->id->id.qp = &pair->qp;
	pair->id->joined = joined;
}

void smd_verbs_pair_fail(struct ibv_qp *qp)
{
	script_lock();
	script_pair_flush(pair_of_qp(qp));
	script_unlock();
}

void smd_verbs_pair_destroy(struct ibv_qp *qp)
{
	struct script_pair *pair = pair_of_qp(qp);
	struct script_id *own;

	script_fault(SCRIPT_pair_destroy);
	script_lock();
	own = pair->id;
	script_queue_leave(pair->queue, pair);
	for (unsigned i = 0; i < pair->posted; i++) {
		free(pair->sends[i].bytes);
	}
	free(pair->sends);
	free(pair);
	own->pair = NULL;
	own->id.qp = NULL;
	script.live--;
	if (own->by_hand) {
		script_by_hand_destroy(own);
	}
	script_unlock();
}

static struct script_pair *pair_of(const struct rdma_cm_id *id)
{
	struct script_pair *pair = script_id_of(id)->pair;

	if (!pair) {
		script_stop("the id has no queue pair");
	}
	return pair;
}

int smd_verbs_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *chain)
{
	struct script_pair *pair = pair_of_qp(qp);
	int err = script_fault(SCRIPT_post_receive);

	script_lock();
	for (; err == 0 && chain; chain = chain->next) {
		if (pair->receives == pair->receives_most) {
			script_stop("a receive queue of %u overflows", pair->receives_most);
		}
		pair->receives++;
		pair->receive_id = chain->wr_id;
	}
	if (pair->broken) {
		script_pair_flush(pair);
	}
	script_unlock();
	return err;
}

static void pair_add_send(struct script_pair *pair, const struct ibv_send_wr *request)
{
	const struct ibv_sge *piece = request->num_sge ? request->sg_list : NULL;
	struct script_send *send;

	if (pair->posted == pair->room) {
		pair->room = pair->room ? 2 * pair->room : 64;
		pair->sends = realloc(pair->sends, pair->room * sizeof(*pair->sends));
	}
	send = &pair->sends[pair->posted++];
	*send = (struct script_send){
		.wr_id = request->wr_id,
		.opcode = request->opcode,
		.flags = request->send_flags,
		.local = piece ? piece->addr : 0,
		.length = piece ? piece->length : 0,
		.lkey = piece ? piece->lkey : 0,
		.remote = request->wr.rdma.remote_addr,
		.rkey = request->wr.rdma.rkey,
		.immediate = ntohl(request->imm_data),
		.doorbell = pair->doorbells,
		.last = !request->next,
	};
	if (request->opcode == IBV_WR_BIND_MW) {
		send->window = request->bind_mw.mw;
		send->bind = request->bind_mw.bind_info;
		send->rkey = request->bind_mw.rkey;
	} else if (request->opcode == IBV_WR_LOCAL_INV || request->opcode == IBV_WR_SEND_WITH_INV) {
		send->rkey = request->invalidate_rkey;
	}
	if (send->flags & IBV_SEND_INLINE) {
		if (send->length > pair->inline_most) {
			script_stop("%u bytes inline, where %u can be", send->length,
				pair->inline_most);
		}
		send->bytes = malloc(send->length + 1);
		if (send->length) {
			memcpy(send->bytes, (const void *)(uintptr_t)send->local, send->length);
		}
	}
}

static int pair_post_send(struct script_pair *pair, struct ibv_send_wr *chain, int err)
{
	struct rdma_cm_id *id = &pair->id->id;

	if (!pair->id->joined) {
		script_stop("a queue pair sends before it is joined");
	}
	for (; err == 0 && chain; chain = chain->next) {
		if (pair->posted - pair->retired == pair->sends_most) {
			return -ENOMEM;
		}
		pair_add_send(pair, chain);
	}
	pair->doorbells++;
	if (pair->broken) {
		script_pair_flush(pair);
	} else if (script.carries) {
		script_carry(id, pair->posted);
	}
	if (script.then) {
		script.then(id, script.owner);
	}
	return err;
}

int smd_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *chain)
{
	int err = script_fault(SCRIPT_post_send);

	script_lock();
	err = pair_post_send(pair_of_qp(qp), chain, err);
	script_unlock();
	return err;
}

const struct script_send *script_sends(const struct rdma_cm_id *id, unsigned *n)
{
	const struct script_pair *pair = pair_of(id);

	*n = pair->posted;
	return pair->sends;
}

void script_forget_sends(const struct rdma_cm_id *id)
{
	struct script_pair *pair = pair_of(id);

	if (pair->retired != pair->posted) {
		script_stop("%u sends are not done", pair->posted - pair->retired);
	}
	for (unsigned i = 0; i < pair->posted; i++) {
		free(pair->sends[i].bytes);
	}
	pair->posted = pair->carried = pair->acknowledged = pair->retired = 0;
	pair->doorbells = 0;
}

unsigned script_receives(const struct rdma_cm_id *id)
{
	return pair_of(id)->receives;
}

uint64_t script_receive_id(const struct rdma_cm_id *id)
{
	return pair_of(id)->receive_id;
}

/* ---- completions ---- */

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND_WITH_INV:
		return IBV_WC_SEND;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

static void pair_complete_send(struct script_pair *pair, enum ibv_wc_status status)
{
	const struct script_send *send = &pair->sends[pair->acknowledged++];
	struct ibv_wc completion = {
		.wr_id = send->wr_id, .status = status, .opcode = completed_as(send->opcode)};

	if (status != IBV_WC_SUCCESS) {
		completion.opcode =
			(enum ibv_wc_opcode)0x5a5a; /* not valid then, nor is the rest */
		completion.imm_data = 0x5a5a5a5a;
	}
	if (status != IBV_WC_SUCCESS || send->flags & IBV_SEND_SIGNALED) {
		script_queue_push(pair->queue, pair, pair->acknowledged, &completion);
	}
}

void script_pair_flush(struct script_pair *pair)
{
	struct ibv_wc completion = {.wr_id = pair->receive_id, .status = IBV_WC_WR_FLUSH_ERR};

	pair->broken = true;
	pair->carried = pair->posted;
	while (pair->acknowledged < pair->posted) {
		pair_complete_send(pair, IBV_WC_WR_FLUSH_ERR);
	}
	for (; pair->receives; pair->receives--) {
		script_queue_push(pair->queue, pair, 0, &completion);
	}
}

void script_break(struct rdma_cm_id *id, enum ibv_wc_status status)
{
	struct script_pair *pair = pair_of(id);

	if (pair->acknowledged < pair->posted) {
		pair_complete_send(pair, status);
	}
	script_pair_flush(pair);
}

void script_complete(struct rdma_cm_id *id, const struct ibv_wc *completion)
{
	script_queue_push(pair_of(id)->queue, NULL, 0, completion);
}

void script_arrive(struct rdma_cm_id *id, uint32_t immediate, uint32_t bytes)
{
	struct script_pair *pair = pair_of(id);
	struct ibv_wc completion = {
		.wr_id = pair->receive_id,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.byte_len = bytes,
		.imm_data = htonl(immediate),
		.wc_flags = IBV_WC_WITH_IMM,
	};

	if (pair->receives == 0) {
		script_stop("a write came where no receive was ready");
	}
	pair->receives--;
	script_queue_push(pair->queue, pair, 0, &completion);
}

void script_return(struct rdma_cm_id *id, uint32_t key)
{
	struct script_pair *pair = pair_of(id);
	struct ibv_wc completion = {
		.wr_id = pair->receive_id,
		.opcode = IBV_WC_RECV,
		.invalidated_rkey = key,
		.wc_flags = IBV_WC_WITH_INV,
	};

	if (pair->receives == 0) {
		script_stop("a send came where no receive was ready");
	}
	pair->receives--;
	script_queue_push(pair->queue, pair, 0, &completion);
}

/* ---- what a device does with a send ---- */

/* A window is bound, or its key is taken back here. */
static enum ibv_wc_status send_carry_local(struct script_pair *pair, const struct script_send *send)
{
	bool done = send->opcode == IBV_WR_BIND_MW
			    ? script_window_bind(send->window, send->rkey, &send->bind, &pair->qp)
			    : script_window_close(send->rkey, &pair->qp);

	return done ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

static enum ibv_wc_status send_carry_return(struct script_id *peer, const struct script_send *send)
{
	if (peer && !script_window_close(send->rkey, &peer->pair->qp)) {
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (peer) {
		script_return(&peer->id, send->rkey);
	}
	return IBV_WC_SUCCESS;
}

/* By the key of registered memory, or of a window that is bound there. */
static bool send_is_allowed(const struct script_id *peer, const struct script_send *send)
{
	return script_key_allows(send->rkey, send->remote, send->length,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) ||
	       (peer && script_window_allows(
				send->rkey, send->remote, send->length, &peer->pair->qp));
}

static enum ibv_wc_status send_carry(struct script_pair *pair, const struct script_send *send)
{
	struct script_id *peer = pair->id->peer;
	const void *from = send->bytes ? send->bytes : (const void *)(uintptr_t)send->local;

	if (send->opcode == IBV_WR_BIND_MW || send->opcode == IBV_WR_LOCAL_INV) {
		return send_carry_local(pair, send);
	}
	if (send->length && !send->bytes &&
		!script_key_allows(send->lkey, send->local, send->length, 0)) {
		return IBV_WC_LOC_PROT_ERR;
	}
	if (peer && (!peer->pair || peer->pair->broken)) {
		return IBV_WC_RETRY_EXC_ERR;
	}
	if (peer && peer->by_hand && !peer->joined) {
		script_stop("a queue pair is written to before it is joined");
	}
	if (send->opcode == IBV_WR_SEND_WITH_INV) {
		return send_carry_return(peer, send);
	}
	if (send->length && !send_is_allowed(peer, send)) {
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (send->length) {
		memcpy((void *)(uintptr_t)send->remote, from, send->length);
	}
	if (peer && send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		script_arrive(&peer->id, send->immediate, send->length);
	}
	return IBV_WC_SUCCESS;
}

unsigned script_carry(struct rdma_cm_id *id, unsigned n)
{
	struct script_pair *pair = pair_of(id);
	unsigned done = 0;

	while (done < n && pair->carried < pair->posted) {
		enum ibv_wc_status status = send_carry(pair, &pair->sends[pair->carried]);

		if (status != IBV_WC_SUCCESS) {
			while (pair->acknowledged < pair->carried) {
				pair_complete_send(pair, IBV_WC_SUCCESS);
			}
			script_break(id, status);
			if (status == IBV_WC_REM_ACCESS_ERR && pair->id->peer) {
				script_pair_flush(pair->id->peer->pair);
			}
			break;
		}
		pair->carried++;
		done++;
	}
	if (script.acknowledges) {
		script_acknowledge(id, pair->posted);
	}
	return done;
}

unsigned script_acknowledge(struct rdma_cm_id *id, unsigned n)
{
	struct script_pair *pair = pair_of(id);
	unsigned done = 0;

	for (; done < n && pair->acknowledged < pair->carried; done++) {
		pair_complete_send(pair, IBV_WC_SUCCESS);
	}
	return done;
}
