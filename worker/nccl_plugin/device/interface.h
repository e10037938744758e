/*
 * Which network interfaces NCCL would use: its own rules, so that the plugin goes over the same
 * ones as the rest of NCCL.
 *
 * NCCL_SOCKET_IFNAME is a list of name prefixes, "eth,ens1"; "=eth0" wants whole names, "^docker"
 * all that do not match, "^=eth1" both. What follows a colon, a port, is ignored. Without it: those
 * whose names begin with ib; or the one on the network of NCCL_COMM_ID; or any but docker, lo and
 * virbr; or docker; or lo; or virbr. NCCL_SOCKET_FAMILY (AF_INET, AF_INET6) restricts them to those
 * that have such an address.
 */
#ifndef SMD_NCCL_PLUGIN_DEVICE_INTERFACE_H
#define SMD_NCCL_PLUGIN_DEVICE_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>

#define SMD_INTERFACES_MAX 16

struct ifaddrs;

/* What the environment says; NULL: nothing. */
struct smd_interface_rules {
	const char *names;   /* SUMMAND_NCCL_IFNAME, else NCCL_SOCKET_IFNAME */
	const char *family;  /* NCCL_SOCKET_FAMILY */
	const char *comm_id; /* NCCL_COMM_ID */
};

/* Whether NCCL_IB_HCA ("": any) allows the port of a verbs device: "mlx5_0:1,mlx5_1", prefixes of
 * names with a port or all; "^" and "=" as above. */
bool smd_hca_allowed(const char *rule, const char *name, int port);

struct smd_interface {
	char name[IF_NAMESIZE];
	struct sockaddr_storage address; /* its first one of the family; port 0 */
	socklen_t length;
};

/* Of the list, which getifaddrs() gives, in its order. How many there are. */
unsigned smd_interfaces_choose(const struct ifaddrs *list, const struct smd_interface_rules *rules,
	struct smd_interface out[SMD_INTERFACES_MAX]);

#endif
