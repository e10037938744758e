/* Calls librdmacm and libibverbs, and turns what they return into -errno. */
#include "reduction_server/transport/rdma/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "reduction_server/base/log.h"

#define HOPS_MOST         64
#define VENDOR_BROADCOM   0x14e4u /* bnxt_re */
#define VENDOR_SOFT       0xffffffu
#define RETRIES_NOT_READY 3 /* never needed: a writer knows how many receives there are */
/* What a queue pair must be told to receive, and then to send. */
#define RECEIVE_MASK                                                                               \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define SEND_MASK                                                                                  \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
		IBV_QP_MAX_QP_RD_ATOMIC)

/* The calls that return -1 and set errno. */
static int from_errno(int ret)
{
	return ret ? -errno : 0;
}

/* The calls that return an errno, or (older providers) -1 and set it. */
static int from_value(int ret)
{
	return ret == -1 ? -errno : ret > 0 ? -ret : ret;
}

/* ---- what there is ---- */

/*
 * A child must not make its parent's registered pages copies, which the device would not know of.
 * Kernels from 5.12 on see to that themselves, and this costs nothing there.
 */
static void prepare_forks(void)
{
	(void)ibv_fork_init();
}

int smd_verbs_check(struct smd_error *error)
{
	static pthread_once_t forks = PTHREAD_ONCE_INIT;
	int n = 0;
	struct ibv_device **devices;

	pthread_once(&forks, prepare_forks);
	devices = ibv_get_device_list(&n);

	if (devices) {
		ibv_free_device_list(devices);
	}
	if (n == 0) {
		return smd_error_set(error, ENODEV,
			"there is no RDMA device (its driver, such as mlx5_ib or rdma_rxe, and "
			"ib_uverbs must be loaded)");
	}
	return 0;
}

/* librdmacm keeps devices open, and closes those that are gone when it makes its list anew. */
void smd_verbs_forget_removed(void)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (devices) {
		rdma_free_devices(devices);
	}
}

/* No dma-buf has the descriptor -1; a device that could take one says so, and others that they
 * could not. */
static int device_check_dmabuf(struct ibv_context *device)
{
	struct ibv_pd *domain = ibv_alloc_pd(device);
	struct ibv_mr *region;
	int err;

	if (!domain) {
		return -errno;
	}
	region = ibv_reg_dmabuf_mr(domain, 0, 0, 0, -1, 0);
	err = region ? EBADF : errno;
	if (region) {
		ibv_dereg_mr(region);
	}
	ibv_dealloc_pd(domain);
	return err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == ENOSYS ? -EOPNOTSUPP : 0;
}

int smd_verbs_check_dmabuf(const char *device)
{
	int n = 0;
	struct ibv_context **devices = rdma_get_devices(&n);
	int ret = -ENODEV;

	for (int i = 0; i < n && devices; i++) {
		if (strcmp(ibv_get_device_name(devices[i]->device), device) == 0) {
			ret = device_check_dmabuf(devices[i]);
		}
	}
	if (devices) {
		rdma_free_devices(devices);
	}
	return ret;
}

static uint32_t least(uint32_t a, int b)
{
	return b > 0 && (uint32_t)b < a ? (uint32_t)b : a;
}

int smd_verbs_query(struct ibv_context *device, uint8_t port, struct smd_verbs_limits *out)
{
	struct ibv_device_attr attributes;
	struct ibv_port_attr port_attributes;
	int ret = from_value(ibv_query_device(device, &attributes));

	if (ret == 0) {
		ret = from_value(ibv_query_port(device, port, &port_attributes));
	}
	if (ret) {
		return ret;
	}
	*out = (struct smd_verbs_limits){
		.queue_depth = least(UINT32_MAX, attributes.max_qp_wr),
		.completions = least(UINT32_MAX, attributes.max_cqe),
		.message_bytes = port_attributes.max_msg_sz,
		.mtu = port_attributes.active_mtu,
		.immediate = device->device->transport_type == IBV_TRANSPORT_IB,
		.routed = port_attributes.flags & IBV_QPF_GRH_REQUIRED,
		.resizes_slowly = attributes.vendor_id == VENDOR_BROADCOM,
		.windows = attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.invalidates = attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS,
	};
	return 0;
}

/* ---- connections ---- */

int smd_verbs_channel_create(struct rdma_event_channel **out)
{
	int flags;

	*out = rdma_create_event_channel();
	if (!*out) {
		return errno == ENOENT ? -ENODEV : -errno;
	}
	flags = fcntl((*out)->fd, F_GETFL);
	if (fcntl((*out)->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
		fcntl((*out)->fd, F_SETFD, FD_CLOEXEC) != 0) {
		int err = errno;

		rdma_destroy_event_channel(*out);
		return -err;
	}
	return 0;
}

void smd_verbs_channel_destroy(struct rdma_event_channel *channel)
{
	rdma_destroy_event_channel(channel);
}

int smd_verbs_event_take(struct rdma_event_channel *channel, struct smd_verbs_event *out)
{
	struct rdma_cm_event *event;
	uint8_t length;

	if (rdma_get_cm_event(channel, &event) != 0) {
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	}
	length = event->param.conn.private_data ? event->param.conn.private_data_len : 0;
	if (length > SMD_VERBS_PRIVATE_MAX) {
		length = SMD_VERBS_PRIVATE_MAX;
	}
	*out = (struct smd_verbs_event){
		.type = event->event,
		.status = event->status,
		.id = event->id,
		.context = event->id->context,
		.private_length = length,
	};
	if (length) {
		memcpy(out->private_data, event->param.conn.private_data, length);
	}
	return from_errno(rdma_ack_cm_event(event));
}

int smd_verbs_id_create(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out)
{
	return from_errno(rdma_create_id(channel, out, context, RDMA_PS_TCP));
}

void smd_verbs_id_destroy(struct rdma_cm_id *id)
{
	rdma_destroy_id(id);
}

int smd_verbs_bind(struct rdma_cm_id *id, const struct sockaddr *address)
{
	return from_errno(rdma_bind_addr(id, (struct sockaddr *)address));
}

int smd_verbs_listen(struct rdma_cm_id *id, const struct sockaddr *address, int backlog)
{
	int yes = 1;
	int ret;

	/* Helps after a restart; a kernel that does not know it can do without. */
	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes));
	ret = from_errno(rdma_bind_addr(id, (struct sockaddr *)address));
	return ret ? ret : from_errno(rdma_listen(id, backlog));
}

int smd_verbs_migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return from_errno(rdma_migrate_id(id, channel));
}

int smd_verbs_resolve_address(struct rdma_cm_id *id, const struct sockaddr *source,
	const struct sockaddr *address, int ms)
{
	return from_errno(
		rdma_resolve_addr(id, (struct sockaddr *)source, (struct sockaddr *)address, ms));
}

int smd_verbs_resolve_route(struct rdma_cm_id *id, int ms)
{
	return from_errno(rdma_resolve_route(id, ms));
}

static struct rdma_conn_param connection(
	uint32_t pair, const void *private_data, uint8_t length, uint8_t retries)
{
	return (struct rdma_conn_param){
		.private_data = private_data,
		.private_data_len = length,
		.retry_count = retries,
		.rnr_retry_count = RETRIES_NOT_READY,
		.qp_num = pair,
	};
}

int smd_verbs_connect(struct rdma_cm_id *id, uint32_t pair, const void *private_data,
	uint8_t length, struct smd_verbs_patience patience)
{
	struct rdma_conn_param param = connection(pair, private_data, length, patience.retries);

	return from_errno(rdma_connect(id, &param));
}

int smd_verbs_accept(struct rdma_cm_id *id, uint32_t pair, const void *private_data, uint8_t length,
	struct smd_verbs_patience patience)
{
	struct rdma_conn_param param = connection(pair, private_data, length, patience.retries);

	return from_errno(rdma_accept(id, &param));
}

int smd_verbs_confirm(struct rdma_cm_id *id)
{
	return from_errno(rdma_establish(id));
}

int smd_verbs_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
	return from_errno(rdma_reject(id, private_data, length));
}

/* ---- queues ---- */

int smd_verbs_domain_create(struct ibv_context *device, struct ibv_pd **out)
{
	*out = ibv_alloc_pd(device);
	return *out ? 0 : -errno;
}

void smd_verbs_domain_destroy(struct ibv_pd *domain)
{
	ibv_dealloc_pd(domain);
}

static bool device_is_soft(struct ibv_context *device)
{
	struct ibv_device_attr attributes;

	return ibv_query_device(device, &attributes) == 0 && attributes.vendor_id == VENDOR_SOFT;
}

int smd_verbs_queue_create(
	struct ibv_context *device, uint32_t depth, int vector, struct smd_verbs_queue *out)
{
	int flags;
	int err;

	out->soft = device_is_soft(device);
	out->channel = ibv_create_comp_channel(device);
	if (!out->channel) {
		return -errno;
	}
	flags = fcntl(out->channel->fd, F_GETFL);
	if (fcntl(out->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
		err = errno;
		goto destroy_channel;
	}
	out->cq = ibv_create_cq(device, (int)depth, NULL, out->channel, vector);
	if (!out->cq) {
		err = errno;
		goto destroy_channel;
	}
	return 0;

destroy_channel:
	ibv_destroy_comp_channel(out->channel);
	return -err;
}

void smd_verbs_queue_destroy(struct smd_verbs_queue *queue)
{
	ibv_destroy_cq(queue->cq);
	ibv_destroy_comp_channel(queue->channel);
}

int smd_verbs_queue_resize(struct smd_verbs_queue *queue, uint32_t depth)
{
	return from_value(ibv_resize_cq(queue->cq, (int)depth));
}

int smd_verbs_queue_arm(struct smd_verbs_queue *queue)
{
	return from_value(ibv_req_notify_cq(queue->cq, 0));
}

void smd_verbs_queue_quiet(struct smd_verbs_queue *queue)
{
	struct ibv_cq *cq;
	unsigned events = 0;
	void *context;

	while (ibv_get_cq_event(queue->channel, &cq, &context) == 0) {
		events++;
	}
	if (events) {
		ibv_ack_cq_events(queue->cq, events);
	}
}

/* Soft-RoCE says by a bit of the kernel's own that a key was given back (IB_WC_WITH_INVALIDATE,
 * which is another one here), as up to Linux 6.1 at least. */
static void translate_flags(struct ibv_wc *completions, int n)
{
	for (int i = 0; i < n; i++) {
		if (completions[i].status == IBV_WC_SUCCESS &&
			completions[i].wc_flags & IBV_WC_IP_CSUM_OK) {
			completions[i].wc_flags |= IBV_WC_WITH_INV;
		}
	}
}

int smd_verbs_queue_poll(struct smd_verbs_queue *queue, struct ibv_wc *completions, int n)
{
	int ret = ibv_poll_cq(queue->cq, n, completions);

	if (queue->soft) {
		translate_flags(completions, ret);
	}
	return ret < 0 ? -EIO : ret;
}

/* ---- queue pairs ---- */

int smd_verbs_pair_create(struct ibv_pd *domain, struct smd_verbs_queue *queue, uint32_t sends,
	uint32_t receives, uint32_t *inline_bytes, struct ibv_qp **out)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = queue->cq,
		.recv_cq = queue->cq,
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr = sends,
				.max_recv_wr = receives,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = *inline_bytes,
			},
	};

	*out = ibv_create_qp(domain, &attributes);
	*inline_bytes = attributes.cap.max_inline_data;
	return *out ? 0 : -errno;
}

static int pair_fail(struct ibv_qp *pair)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};

	return from_value(ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
}

void smd_verbs_pair_fail(struct ibv_qp *pair)
{
	(void)pair_fail(pair); /* whoever destroys it then says what cannot be done */
}

/* One that is in the error state reads and writes nothing, whatever comes. */
static void pair_stop(struct ibv_qp *pair, int err)
{
	const char *name = ibv_get_device_name(pair->context->device);
	int ret = pair_fail(pair);

	if (ret) {
		smd_log(SMD_LOG_ERROR, "rdma",
			"%s: cannot destroy a queue pair: %s, nor stop it: %s; its memory may "
			"still be read and written",
			name, strerror(-err), strerror(-ret));
	} else {
		smd_log(SMD_LOG_WARN, "rdma",
			"%s: cannot destroy a queue pair: %s; it is stopped, and stays until the "
			"process ends",
			name, strerror(-err));
	}
}

void smd_verbs_pair_destroy(struct ibv_qp *pair)
{
	int ret = from_value(ibv_destroy_qp(pair));

	if (ret) {
		pair_stop(pair, ret);
	}
}

int smd_verbs_pair_init(struct ibv_qp *pair, uint8_t port, uint16_t pkey)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = pkey,
		.port_num = port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	return from_value(ibv_modify_qp(pair, &attributes,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* What the connection manager knows of a queue pair's way to that state. Some kernels set bits of
 * their own. */
static int pair_ask(
	struct rdma_cm_id *id, enum ibv_qp_state state, struct ibv_qp_attr *out, int *mask)
{
	int ret;

	*mask = 0;
	*out = (struct ibv_qp_attr){.qp_state = state};
	ret = from_errno(rdma_init_qp_attr(id, out, mask));
	*mask &= IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
		 RECEIVE_MASK | SEND_MASK;
	return ret;
}

int smd_verbs_pair_init_as(struct ibv_qp *pair, struct rdma_cm_id *id, uint16_t pkey)
{
	struct ibv_qp_attr attributes;
	int mask;
	int ret = pair_ask(id, IBV_QPS_INIT, &attributes, &mask);

	attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	attributes.pkey_index = pkey ? pkey : attributes.pkey_index;
	return ret ? ret : from_value(ibv_modify_qp(pair, &attributes, mask));
}

/* Ready to receive. A subnet manager's path goes by the lid; what crosses a router, or Ethernet,
 * by the gid, and so does all on some virtual functions. */
static int pair_receive(struct ibv_qp *pair, const struct smd_verbs_path *path)
{
	const struct smd_verbs_port *port = &path->port;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->mtu,
		.dest_qp_num = path->number,
		.rq_psn = path->first_packet,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr =
			{
				.is_global = port->ethernet || port->routed ||
					     memcmp(port->gid, path->gid, 8) != 0,
				.dlid = path->lid,
				.sl = path->service_level,
				.port_num = port->number,
				.grh =
					{
						.sgid_index = port->gid_index,
						.hop_limit = HOPS_MOST,
						.traffic_class = path->traffic_class,
					},
			},
	};

	memcpy(attributes.ah_attr.grh.dgid.raw, path->gid, sizeof(path->gid));
	return from_value(ibv_modify_qp(pair, &attributes, IBV_QP_STATE | RECEIVE_MASK));
}

int smd_verbs_pair_join(struct ibv_qp *pair, const struct smd_verbs_path *path)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.timeout = path->patience.timeout,
		.retry_cnt = path->patience.retries,
		.rnr_retry = RETRIES_NOT_READY,
		.sq_psn = path->own_first_packet,
		.max_rd_atomic = 1,
	};
	int ret = pair_receive(pair, path);

	return ret ? ret : from_value(ibv_modify_qp(pair, &attributes, IBV_QP_STATE | SEND_MASK));
}

static int pair_receive_as(struct ibv_qp *pair, struct rdma_cm_id *id, struct smd_verbs_path *path)
{
	struct ibv_qp_attr attributes;
	int mask;
	int ret = pair_ask(id, IBV_QPS_RTR, &attributes, &mask);
	struct ibv_ah_attr *way = &attributes.ah_attr;

	if (ret) {
		return ret;
	}
	way->sl = path->service_level ? path->service_level : way->sl;
	way->grh.traffic_class = path->traffic_class ? path->traffic_class : way->grh.traffic_class;
	path->mtu = attributes.path_mtu;
	return from_value(ibv_modify_qp(pair, &attributes, mask));
}

int smd_verbs_pair_join_as(struct ibv_qp *pair, struct rdma_cm_id *id, struct smd_verbs_path *path)
{
	struct ibv_qp_attr attributes;
	int mask;
	int ret = pair_receive_as(pair, id, path);

	if (ret == 0) {
		ret = pair_ask(id, IBV_QPS_RTS, &attributes, &mask);
	}
	if (ret) {
		return ret;
	}
	attributes.timeout = path->patience.timeout;
	attributes.retry_cnt = path->patience.retries;
	attributes.rnr_retry = RETRIES_NOT_READY;
	return from_value(ibv_modify_qp(pair, &attributes, mask));
}

int smd_verbs_post_send(struct ibv_qp *pair, struct ibv_send_wr *chain)
{
	struct ibv_send_wr *bad;

	return from_value(ibv_post_send(pair, chain, &bad));
}

int smd_verbs_post_receive(struct ibv_qp *pair, struct ibv_recv_wr *chain)
{
	struct ibv_recv_wr *bad;

	return from_value(ibv_post_recv(pair, chain, &bad));
}
