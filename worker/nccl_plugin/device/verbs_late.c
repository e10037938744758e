/*
 * The functions of libibverbs and librdmacm that verbs.h needs, which open these libraries when
 * they are first called: containers with GPUs need not have them. Without them there are no
 * devices, and all else fails with ENOSYS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stddef.h>

static void *library;

/* It brings libibverbs with it. Never closed: devices' own libraries come along. */
static void open_library(void)
{
	library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void *find(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *found;

	pthread_once(&once, open_library);
	found = library ? dlsym(library, name) : NULL;
	if (!found) {
		errno = ENOSYS;
	}
	return found;
}

#define LATE(type, missing, name, parameters, ...)                                                 \
	type name parameters                                                                       \
	{                                                                                          \
		static _Atomic(void *) known;                                                      \
		__typeof__(name) *call = known;                                                    \
                                                                                                   \
		if (!call) {                                                                       \
			known = call = find(#name);                                                \
		}                                                                                  \
		if (!call) {                                                                       \
			return missing;                                                            \
		}                                                                                  \
		return call(__VA_ARGS__);                                                          \
	}

/* In the headers they are macros that end in the functions. */
#undef ibv_query_port

LATE(void, , ibv_ack_cq_events, (struct ibv_cq * cq, unsigned int n), cq, n)
LATE(void, , ibv_ack_async_event, (struct ibv_async_event * event), event)
LATE(struct ibv_pd *, NULL, ibv_alloc_pd, (struct ibv_context * context), context)
LATE(int, -1, ibv_close_device, (struct ibv_context * context), context)
LATE(struct ibv_comp_channel *, NULL, ibv_create_comp_channel, (struct ibv_context * context),
	context)
LATE(struct ibv_cq *, NULL, ibv_create_cq,
	(struct ibv_context * context, int cqe, void *owner, struct ibv_comp_channel *channel,
		int vector),
	context, cqe, owner, channel, vector)
LATE(struct ibv_qp *, NULL, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr), pd,
	attr)
LATE(int, -1, ibv_dealloc_pd, (struct ibv_pd * pd), pd)
LATE(int, -1, ibv_dereg_mr, (struct ibv_mr * mr), mr)
LATE(int, -1, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel), channel)
LATE(int, -1, ibv_destroy_cq, (struct ibv_cq * cq), cq)
LATE(int, -1, ibv_destroy_qp, (struct ibv_qp * pair), pair)
LATE(const char *, "an event", ibv_event_type_str, (enum ibv_event_type type), type)
LATE(int, -1, ibv_fork_init, (void))
LATE(void, , ibv_free_device_list, (struct ibv_device * *list), list)
LATE(int, -1, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event *event),
	context, event)
LATE(int, -1, ibv_get_cq_event,
	(struct ibv_comp_channel * channel, struct ibv_cq **cq, void **owner), channel, cq, owner)
LATE(struct ibv_device **, NULL, ibv_get_device_list, (int *n), n)
LATE(const char *, NULL, ibv_get_device_name, (struct ibv_device * device), device)
LATE(int, -1, ibv_modify_qp, (struct ibv_qp * pair, struct ibv_qp_attr *attr, int mask), pair, attr,
	mask)
LATE(struct ibv_context *, NULL, ibv_open_device, (struct ibv_device * device), device)
LATE(int, -1, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
	context, attr)
LATE(int, -1, ibv_query_port,
	(struct ibv_context * context, uint8_t port, struct _compat_ibv_port_attr *attr), context,
	port, attr)
LATE(struct ibv_mr *, NULL, ibv_reg_dmabuf_mr,
	(struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access), pd,
	offset, length, iova, fd, access)
LATE(struct ibv_mr *, NULL, ibv_reg_mr_iova2,
	(struct ibv_pd * pd, void *memory, size_t length, uint64_t iova, unsigned int access), pd,
	memory, length, iova, access)
LATE(int, -1, ibv_resize_cq, (struct ibv_cq * cq, int cqe), cq, cqe)
LATE(const char *, NULL, ibv_wc_status_str, (enum ibv_wc_status status), status)

LATE(int, -1, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), id, param)
LATE(int, -1, rdma_ack_cm_event, (struct rdma_cm_event * event), event)
LATE(int, -1, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *address), id, address)
LATE(int, -1, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), id, param)
LATE(struct rdma_event_channel *, NULL, rdma_create_event_channel, (void))
LATE(int, -1, rdma_create_id,
	(struct rdma_event_channel * channel, struct rdma_cm_id **id, void *owner,
		enum rdma_port_space space),
	channel, id, owner, space)
LATE(void, , rdma_destroy_event_channel, (struct rdma_event_channel * channel), channel)
LATE(int, -1, rdma_destroy_id, (struct rdma_cm_id * id), id)
LATE(int, -1, rdma_establish, (struct rdma_cm_id * id), id)
LATE(void, , rdma_free_devices, (struct ibv_context * *list), list)
LATE(int, -1, rdma_get_cm_event,
	(struct rdma_event_channel * channel, struct rdma_cm_event **event), channel, event)
LATE(struct ibv_context **, NULL, rdma_get_devices, (int *n), n)
LATE(int, -1, rdma_init_qp_attr, (struct rdma_cm_id * id, struct ibv_qp_attr *attr, int *mask), id,
	attr, mask)
LATE(int, -1, rdma_listen, (struct rdma_cm_id * id, int backlog), id, backlog)
LATE(int, -1, rdma_migrate_id, (struct rdma_cm_id * id, struct rdma_event_channel *channel), id,
	channel)
LATE(int, -1, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t length), id, data,
	length)
LATE(int, -1, rdma_resolve_addr,
	(struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int ms), id, from, to,
	ms)
LATE(int, -1, rdma_resolve_route, (struct rdma_cm_id * id, int ms), id, ms)
LATE(int, -1, rdma_set_option,
	(struct rdma_cm_id * id, int level, int name, void *value, size_t length), id, level, name,
	value, length)
