/*
 * Sizes and offsets of everything in nccl_abi.h, which includes this: a table that is one field off
 * makes NCCL call another function.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_NCCL_ABI_LAYOUT_H
#define SMD_NCCL_PLUGIN_ABI_NCCL_ABI_LAYOUT_H

#if UINTPTR_MAX == UINT64_MAX

#define NCCL_ABI_AT(type, field, offset)                                                           \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field " is elsewhere")
#define NCCL_ABI_SIZE(type, size)                                                                  \
	_Static_assert(sizeof(struct type) == (size), #type " has another size")

/* What every table of its kind begins with. */
#define NCCL_ABI_NET(type)                                                                         \
	NCCL_ABI_AT(type, name, 0);                                                                \
	NCCL_ABI_AT(type, init, 8);                                                                \
	NCCL_ABI_AT(type, devices, 16);                                                            \
	NCCL_ABI_AT(type, getProperties, 24);                                                      \
	NCCL_ABI_AT(type, listen, 32);                                                             \
	NCCL_ABI_AT(type, connect, 40);                                                            \
	NCCL_ABI_AT(type, accept, 48);                                                             \
	NCCL_ABI_AT(type, regMr, 56);                                                              \
	NCCL_ABI_AT(type, regMrDmaBuf, 64);                                                        \
	NCCL_ABI_AT(type, deregMr, 72);                                                            \
	NCCL_ABI_AT(type, isend, 80);                                                              \
	NCCL_ABI_AT(type, irecv, 88);                                                              \
	NCCL_ABI_AT(type, iflush, 96);                                                             \
	NCCL_ABI_AT(type, test, 104);                                                              \
	NCCL_ABI_AT(type, closeSend, 112);                                                         \
	NCCL_ABI_AT(type, closeRecv, 120);                                                         \
	NCCL_ABI_AT(type, closeListen, 128)

#define NCCL_ABI_COLLNET(type)                                                                     \
	NCCL_ABI_AT(type, name, 0);                                                                \
	NCCL_ABI_AT(type, init, 8);                                                                \
	NCCL_ABI_AT(type, devices, 16);                                                            \
	NCCL_ABI_AT(type, getProperties, 24);                                                      \
	NCCL_ABI_AT(type, listen, 32);                                                             \
	NCCL_ABI_AT(type, connect, 40);                                                            \
	NCCL_ABI_AT(type, reduceSupport, 48);                                                      \
	NCCL_ABI_AT(type, regMr, 56);                                                              \
	NCCL_ABI_AT(type, regMrDmaBuf, 64);                                                        \
	NCCL_ABI_AT(type, deregMr, 72);                                                            \
	NCCL_ABI_AT(type, iallreduce, 80);                                                         \
	NCCL_ABI_AT(type, iallgather, 88);                                                         \
	NCCL_ABI_AT(type, ireducescatter, 96);                                                     \
	NCCL_ABI_AT(type, iflush, 104);                                                            \
	NCCL_ABI_AT(type, test, 112);                                                              \
	NCCL_ABI_AT(type, closeColl, 120);                                                         \
	NCCL_ABI_AT(type, closeListen, 128)

NCCL_ABI_AT(nccl_props_v6, name, 0);
NCCL_ABI_AT(nccl_props_v6, pci_path, 8);
NCCL_ABI_AT(nccl_props_v6, guid, 16);
NCCL_ABI_AT(nccl_props_v6, ptr_support, 24);
NCCL_ABI_AT(nccl_props_v6, speed, 28);
NCCL_ABI_AT(nccl_props_v6, port, 32);
NCCL_ABI_AT(nccl_props_v6, latency, 36);
NCCL_ABI_AT(nccl_props_v6, max_comms, 40);
NCCL_ABI_AT(nccl_props_v6, max_recvs, 44);
NCCL_ABI_SIZE(nccl_props_v6, 48);

NCCL_ABI_AT(nccl_props_v8, name, 0);
NCCL_ABI_AT(nccl_props_v8, pci_path, 8);
NCCL_ABI_AT(nccl_props_v8, guid, 16);
NCCL_ABI_AT(nccl_props_v8, ptr_support, 24);
NCCL_ABI_AT(nccl_props_v8, reg_is_global, 28);
NCCL_ABI_AT(nccl_props_v8, speed, 32);
NCCL_ABI_AT(nccl_props_v8, port, 36);
NCCL_ABI_AT(nccl_props_v8, latency, 40);
NCCL_ABI_AT(nccl_props_v8, max_comms, 44);
NCCL_ABI_AT(nccl_props_v8, max_recvs, 48);
NCCL_ABI_AT(nccl_props_v8, device_type, 52);
NCCL_ABI_AT(nccl_props_v8, device_version, 56);
NCCL_ABI_SIZE(nccl_props_v8, 64);

NCCL_ABI_AT(nccl_props_v9, name, 0);
NCCL_ABI_AT(nccl_props_v9, pci_path, 8);
NCCL_ABI_AT(nccl_props_v9, guid, 16);
NCCL_ABI_AT(nccl_props_v9, ptr_support, 24);
NCCL_ABI_AT(nccl_props_v9, reg_is_global, 28);
NCCL_ABI_AT(nccl_props_v9, force_flush, 32);
NCCL_ABI_AT(nccl_props_v9, speed, 36);
NCCL_ABI_AT(nccl_props_v9, port, 40);
NCCL_ABI_AT(nccl_props_v9, latency, 44);
NCCL_ABI_AT(nccl_props_v9, max_comms, 48);
NCCL_ABI_AT(nccl_props_v9, max_recvs, 52);
NCCL_ABI_AT(nccl_props_v9, device_type, 56);
NCCL_ABI_AT(nccl_props_v9, device_version, 60);
NCCL_ABI_AT(nccl_props_v9, vprops, 64);
NCCL_ABI_AT(nccl_props_v9, max_p2p_bytes, 88);
NCCL_ABI_AT(nccl_props_v9, max_coll_bytes, 96);
NCCL_ABI_SIZE(nccl_props_v9, 104);

NCCL_ABI_AT(nccl_props_v11, name, 0);
NCCL_ABI_AT(nccl_props_v11, pci_path, 8);
NCCL_ABI_AT(nccl_props_v11, guid, 16);
NCCL_ABI_AT(nccl_props_v11, ptr_support, 24);
NCCL_ABI_AT(nccl_props_v11, reg_is_global, 28);
NCCL_ABI_AT(nccl_props_v11, force_flush, 32);
NCCL_ABI_AT(nccl_props_v11, speed, 36);
NCCL_ABI_AT(nccl_props_v11, port, 40);
NCCL_ABI_AT(nccl_props_v11, latency, 44);
NCCL_ABI_AT(nccl_props_v11, max_comms, 48);
NCCL_ABI_AT(nccl_props_v11, max_recvs, 52);
NCCL_ABI_AT(nccl_props_v11, device_type, 56);
NCCL_ABI_AT(nccl_props_v11, device_version, 60);
NCCL_ABI_AT(nccl_props_v11, vprops, 64);
NCCL_ABI_AT(nccl_props_v11, max_p2p_bytes, 88);
NCCL_ABI_AT(nccl_props_v11, max_coll_bytes, 96);
NCCL_ABI_AT(nccl_props_v11, max_multi_request_size, 104);
NCCL_ABI_SIZE(nccl_props_v11, 112);

NCCL_ABI_AT(nccl_props_v12, name, 0);
NCCL_ABI_AT(nccl_props_v12, pci_path, 8);
NCCL_ABI_AT(nccl_props_v12, guid, 16);
NCCL_ABI_AT(nccl_props_v12, ptr_support, 24);
NCCL_ABI_AT(nccl_props_v12, reg_is_global, 28);
NCCL_ABI_AT(nccl_props_v12, force_flush, 32);
NCCL_ABI_AT(nccl_props_v12, speed, 36);
NCCL_ABI_AT(nccl_props_v12, port, 40);
NCCL_ABI_AT(nccl_props_v12, latency, 44);
NCCL_ABI_AT(nccl_props_v12, max_comms, 48);
NCCL_ABI_AT(nccl_props_v12, max_recvs, 52);
NCCL_ABI_AT(nccl_props_v12, device_type, 56);
NCCL_ABI_AT(nccl_props_v12, device_version, 60);
NCCL_ABI_AT(nccl_props_v12, vprops, 64);
NCCL_ABI_AT(nccl_props_v12, max_p2p_bytes, 104);
NCCL_ABI_AT(nccl_props_v12, max_coll_bytes, 112);
NCCL_ABI_AT(nccl_props_v12, max_multi_request_size, 120);
NCCL_ABI_AT(nccl_props_v12, rail, 124);
NCCL_ABI_AT(nccl_props_v12, plane, 126);
NCCL_ABI_SIZE(nccl_props_v12, 128);

NCCL_ABI_AT(nccl_vdevice_v9, devs, 4);
NCCL_ABI_SIZE(nccl_vdevice_v9, 20);
NCCL_ABI_AT(nccl_vdevice_v12, devs, 4);
NCCL_ABI_SIZE(nccl_vdevice_v12, 36);
NCCL_ABI_SIZE(nccl_comm_config, 4);
NCCL_ABI_SIZE(nccl_comm_attributes, 16);
NCCL_ABI_AT(nccl_net_attributes, receive, 16);
NCCL_ABI_AT(nccl_net_attributes, op, 32);
NCCL_ABI_AT(nccl_net_attributes, algo, 36);
NCCL_ABI_AT(nccl_net_attributes, proto, 40);
NCCL_ABI_SIZE(nccl_net_attributes, 44);

NCCL_ABI_NET(nccl_net_v6);
NCCL_ABI_SIZE(nccl_net_v6, 136);

NCCL_ABI_NET(nccl_net_v8);
NCCL_ABI_AT(nccl_net_v8, getDeviceMr, 136);
NCCL_ABI_AT(nccl_net_v8, irecvConsumed, 144);
NCCL_ABI_SIZE(nccl_net_v8, 152);

NCCL_ABI_NET(nccl_net_v9);
NCCL_ABI_AT(nccl_net_v9, getDeviceMr, 136);
NCCL_ABI_AT(nccl_net_v9, irecvConsumed, 144);
NCCL_ABI_AT(nccl_net_v9, makeVDevice, 152);
NCCL_ABI_SIZE(nccl_net_v9, 160);

NCCL_ABI_NET(nccl_net_v10);
NCCL_ABI_AT(nccl_net_v10, getDeviceMr, 136);
NCCL_ABI_AT(nccl_net_v10, irecvConsumed, 144);
NCCL_ABI_AT(nccl_net_v10, makeVDevice, 152);
NCCL_ABI_SIZE(nccl_net_v10, 160);

NCCL_ABI_NET(nccl_net_v11);
NCCL_ABI_AT(nccl_net_v11, getDeviceMr, 136);
NCCL_ABI_AT(nccl_net_v11, irecvConsumed, 144);
NCCL_ABI_AT(nccl_net_v11, makeVDevice, 152);
NCCL_ABI_AT(nccl_net_v11, finalize, 160);
NCCL_ABI_AT(nccl_net_v11, setNetAttr, 168);
NCCL_ABI_SIZE(nccl_net_v11, 176);

NCCL_ABI_NET(nccl_net_v12);
NCCL_ABI_AT(nccl_net_v12, getDeviceMr, 136);
NCCL_ABI_AT(nccl_net_v12, irecvConsumed, 144);
NCCL_ABI_AT(nccl_net_v12, makeVDevice, 152);
NCCL_ABI_AT(nccl_net_v12, finalize, 160);
NCCL_ABI_AT(nccl_net_v12, setNetAttr, 168);
NCCL_ABI_SIZE(nccl_net_v12, 176);

NCCL_ABI_AT(nccl_collnet_v6, name, 0);
NCCL_ABI_AT(nccl_collnet_v6, init, 8);
NCCL_ABI_AT(nccl_collnet_v6, devices, 16);
NCCL_ABI_AT(nccl_collnet_v6, getProperties, 24);
NCCL_ABI_AT(nccl_collnet_v6, listen, 32);
NCCL_ABI_AT(nccl_collnet_v6, connect, 40);
NCCL_ABI_AT(nccl_collnet_v6, reduceSupport, 48);
NCCL_ABI_AT(nccl_collnet_v6, regMr, 56);
NCCL_ABI_AT(nccl_collnet_v6, regMrDmaBuf, 64);
NCCL_ABI_AT(nccl_collnet_v6, deregMr, 72);
NCCL_ABI_AT(nccl_collnet_v6, iallreduce, 80);
NCCL_ABI_AT(nccl_collnet_v6, iflush, 88);
NCCL_ABI_AT(nccl_collnet_v6, test, 96);
NCCL_ABI_AT(nccl_collnet_v6, closeColl, 104);
NCCL_ABI_AT(nccl_collnet_v6, closeListen, 112);
NCCL_ABI_SIZE(nccl_collnet_v6, 120);

NCCL_ABI_COLLNET(nccl_collnet_v8);
NCCL_ABI_SIZE(nccl_collnet_v8, 136);

NCCL_ABI_COLLNET(nccl_collnet_v9);
NCCL_ABI_AT(nccl_collnet_v9, makeVDevice, 136);
NCCL_ABI_SIZE(nccl_collnet_v9, 144);

NCCL_ABI_COLLNET(nccl_collnet_v11);
NCCL_ABI_AT(nccl_collnet_v11, makeVDevice, 136);
NCCL_ABI_AT(nccl_collnet_v11, finalize, 144);
NCCL_ABI_SIZE(nccl_collnet_v11, 152);

NCCL_ABI_COLLNET(nccl_collnet_v12);
NCCL_ABI_AT(nccl_collnet_v12, makeVDevice, 136);
NCCL_ABI_AT(nccl_collnet_v12, finalize, 144);
NCCL_ABI_SIZE(nccl_collnet_v12, 152);

NCCL_ABI_AT(nccl_sge_v8, address, 8);
NCCL_ABI_AT(nccl_sge_v8, size, 16);
NCCL_ABI_SIZE(nccl_sge_v8, 24);
NCCL_ABI_AT(nccl_sge_v9, address, 8);
NCCL_ABI_AT(nccl_sge_v9, size, 16);
NCCL_ABI_SIZE(nccl_sge_v9, 24);

NCCL_ABI_AT(nccl_tuner_v2, init, 8);
NCCL_ABI_AT(nccl_tuner_v2, getCollInfo, 16);
NCCL_ABI_AT(nccl_tuner_v2, destroy, 24);
NCCL_ABI_SIZE(nccl_tuner_v2, 32);
NCCL_ABI_AT(nccl_tuner_v3, init, 8);
NCCL_ABI_AT(nccl_tuner_v3, getCollInfo, 16);
NCCL_ABI_AT(nccl_tuner_v3, destroy, 24);
NCCL_ABI_SIZE(nccl_tuner_v3, 32);
NCCL_ABI_AT(nccl_tuner_v4, init, 8);
NCCL_ABI_AT(nccl_tuner_v4, getCollInfo, 16);
NCCL_ABI_AT(nccl_tuner_v4, destroy, 24);
NCCL_ABI_SIZE(nccl_tuner_v4, 32);
NCCL_ABI_AT(nccl_tuner_v5, init, 8);
NCCL_ABI_AT(nccl_tuner_v5, getCollInfo, 16);
NCCL_ABI_AT(nccl_tuner_v5, finalize, 24);
NCCL_ABI_SIZE(nccl_tuner_v5, 32);
NCCL_ABI_SIZE(nccl_nvl_domain_v5, 12);

#endif

#endif
