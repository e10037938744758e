/* The table of transports: a new one is a folder and a line here. */
#include "reduction_server/transport/transports.h"

const struct smd_transport_ops *const smd_transports[] = {
	&smd_transport_tcp,
	&smd_transport_rdma,
	&smd_transport_shm,
#ifdef SMD_TEST_TRANSPORTS
	&smd_transport_loopback,
	&smd_transport_fault,
	&smd_transport_carried,
#endif
	NULL,
};
