/* Host lists, variables and command lines of Open MPI 4 and MPICH's Hydra. */
#include "worker/mpi/launcher.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/parse.h"

#define OPENMPI_HOSTS "hosts.openmpi"
#define MPICH_HOSTS   "hosts.mpich"
#define OWN_HOST      "localhost" /* both take it for the one that they run on */
#define HOST_MAX      256
#define PATH_SIZE     256
#define WORDS_MAX     16 /* before the command's */

static int write_hosts(const struct smd_mpi_scratch *scratch, const char *name,
	const struct smd_mpi_nodes *nodes, const char *own, const char *form, int processes)
{
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);
	int failed = !file;
	int ret;

	for (size_t i = 0; file && i < nodes->count; i++) {
		fprintf(file, "%s%s%d\n", i == 0 ? own : nodes->nodes[i].name, form, processes);
	}
	failed |= file && fclose(file);
	ret = failed ? -ENOMEM : smd_mpi_scratch_write(scratch, name, text, length);
	free(text);
	return ret;
}

/* Hydra's daemons come back to the name that this host has in the list. */
static const char *own_host(const struct smd_mpi_nodes *nodes, char host[HOST_MAX])
{
	uint16_t port;

	if (smd_parse_endpoint(nodes->nodes[0].endpoint, host, HOST_MAX, &port) ||
		strchr(host, ':')) { /* there a number of processes would begin */
		return OWN_HOST;
	}
	return host;
}

/* The IPv4 address of an endpoint's host. */
static int address_of(const char *endpoint, struct in_addr *out)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[HOST_MAX];
	uint16_t port;

	if (smd_parse_endpoint(endpoint, host, sizeof(host), &port) ||
		getaddrinfo(host, NULL, &hints, &found)) {
		return -ENOENT;
	}
	*out = ((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr;
	freeaddrinfo(found);
	return 0;
}

/* The mask of the interface that has the address. */
static int mask_of(struct in_addr address, struct in_addr *out)
{
	struct ifaddrs *list;
	int ret = -ENOENT;

	if (getifaddrs(&list)) {
		return -errno;
	}
	for (struct ifaddrs *at = list; at && ret; at = at->ifa_next) {
		const struct sockaddr_in *own =
			(const struct sockaddr_in *)(const void *)at->ifa_addr;

		if (own && own->sin_family == AF_INET && at->ifa_netmask &&
			own->sin_addr.s_addr == address.s_addr) {
			*out = ((const struct sockaddr_in *)(const void *)at->ifa_netmask)
				       ->sin_addr;
			ret = 0;
		}
	}
	freeifaddrs(list);
	return ret;
}

/* The network that all replicas have an address in, "10.1.0.0/16": a name of an interface need not
 * be the same on every host. -ENOENT: there is none. */
static int common_network(const struct smd_mpi_nodes *nodes, char *out, size_t size)
{
	struct in_addr own;
	struct in_addr mask = {0};
	uint32_t network;
	int ret = address_of(nodes->nodes[0].endpoint, &own);

	ret = ret ? ret : mask_of(own, &mask);
	for (size_t i = 1; i < nodes->count && !ret; i++) {
		struct in_addr other;

		ret = address_of(nodes->nodes[i].endpoint, &other);
		if (!ret && ((own.s_addr ^ other.s_addr) & mask.s_addr)) {
			ret = -ENOENT;
		}
	}
	if (ret) {
		return ret;
	}
	network = ntohl(own.s_addr & mask.s_addr);
	snprintf(out, size, "%u.%u.%u.%u/%d", network >> 24, network >> 16 & 255,
		network >> 8 & 255, network & 255, __builtin_popcount(mask.s_addr));
	return 0;
}

/* Settings that decide whether it works; they stand before a user's. */
static int set_required(const char *starter, const char *openmpi_hosts, const char *mpich_hosts,
	const char *concurrent)
{
	const struct {
		const char *name;
		const char *value;
	} variables[] = {
		{"OMPI_MCA_plm_rsh_agent", starter},
		{"OMPI_MCA_plm_rsh_no_tree_spawn", "1"}, /* only the chief knows the addresses */
		/* A daemon lives as long as the connection that it was started over. */
		{"OMPI_MCA_orte_leave_session_attached", "1"},
		{"OMPI_MCA_plm_rsh_num_concurrent", concurrent},
		{"OMPI_MCA_orte_default_hostfile", openmpi_hosts}, {"HYDRA_LAUNCHER", "ssh"},
		{"HYDRA_LAUNCHER_EXEC", starter}, {"HYDRA_HOST_FILE", mpich_hosts},
		{"HYDRA_ENV", "none"}, /* a replica's ranks have its own variables */
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		failed |= setenv(variables[i].name, variables[i].value, 1);
	}
	/* Inside of a batch job Open MPI would ask that for hosts. */
	failed |= setenv("OMPI_MCA_plm", "rsh", 1) | setenv("OMPI_MCA_ras", "^slurm,tm", 1);
	failed |= setenv("HYDRA_RMK", "user", 1);
	return failed ? -ENOMEM : 0;
}

int smd_mpi_launcher_find_shared(const struct smd_mpi_nodes *nodes, const char **a, const char **b)
{
	char one[HOST_MAX];
	char other[HOST_MAX];
	uint16_t port;

	for (size_t i = 0; i < nodes->count; i++) {
		for (size_t n = 0; n < i; n++) {
			if (smd_parse_endpoint(nodes->nodes[n].endpoint, one, HOST_MAX, &port) ||
				smd_parse_endpoint(
					nodes->nodes[i].endpoint, other, HOST_MAX, &port) ||
				strcmp(one, other) != 0) {
				continue;
			}
			*a = nodes->nodes[n].name;
			*b = nodes->nodes[i].name;
			return 1;
		}
	}
	return 0;
}

/* Settings that a user's own come before. Ranks fill their replica's slots in order; those that are
 * bound are dealt over what they are bound to. */
static int set_defaults(const struct smd_mpi_nodes *nodes, const char *binding)
{
	const char *mapping = strcmp(binding, SMD_MPI_NOT_BOUND) == 0 ? "slot" : binding;
	char network[32];
	int failed = setenv("OMPI_MCA_hwloc_base_binding_policy", binding, 0);

	failed |= setenv("OMPI_MCA_rmaps_base_mapping_policy", mapping, 0);
	if (common_network(nodes, network, sizeof(network)) == 0) {
		failed |= setenv("OMPI_MCA_oob_tcp_if_include", network, 0);
		if (!getenv("OMPI_MCA_btl_tcp_if_exclude")) {
			failed |= setenv("OMPI_MCA_btl_tcp_if_include", network, 0);
		}
	}
	/* What a job's user is, was decided by whoever started the runner. */
	if (geteuid() == 0) {
		failed |= setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
		failed |= setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
	}
	return failed ? -ENOMEM : 0;
}

int smd_mpi_launcher_prepare(const struct smd_mpi_scratch *scratch,
	const struct smd_mpi_nodes *nodes, const struct smd_mpi_options *options,
	struct smd_error *error)
{
	int processes = options->processes;
	char starter[PATH_SIZE];
	char openmpi[PATH_SIZE];
	char mpich[PATH_SIZE];
	char concurrent[16];
	char host[HOST_MAX];
	int ret;

	snprintf(starter, sizeof(starter), "%s/" SMD_MPI_STARTER, scratch->path);
	snprintf(openmpi, sizeof(openmpi), "%s/" OPENMPI_HOSTS, scratch->path);
	snprintf(mpich, sizeof(mpich), "%s/" MPICH_HOSTS, scratch->path);
	snprintf(concurrent, sizeof(concurrent), "%zu", nodes->count + 1);
	/* A name without arguments, as Hydra wants it. */
	ret = smd_mpi_scratch_link(scratch, SMD_MPI_STARTER);
	ret = ret ? ret
		  : write_hosts(scratch, OPENMPI_HOSTS, nodes, OWN_HOST, " slots=", processes);
	ret = ret ? ret
		  : write_hosts(scratch, MPICH_HOSTS, nodes, own_host(nodes, host), ":", processes);
	ret = ret ? ret : set_required(starter, openmpi, mpich, concurrent);
	ret = ret ? ret : set_defaults(nodes, options->binding);
	return ret ? smd_error_set(error, -ret, "%s: %s", scratch->path, strerror(-ret)) : 0;
}

/* Open MPI's name that no other MPI has, so that no other mpirun is taken for it. */
static const char *const programs[] = {
	[SMD_MPI_OPENMPI] = "orterun", [SMD_MPI_MPICH] = "mpiexec.hydra"};

static int is_in_path(const char *program)
{
	const char *path = getenv("PATH");
	char file[4096];
	size_t length;

	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;
		path += length + !!path[length]) {
		length = strcspn(path, ":");
		snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, program);
		if (access(file, X_OK) == 0) {
			return 1;
		}
	}
	return 0;
}

static int choose(int wanted, struct smd_error *error)
{
	char host[HOST_MAX] = "";

	for (int i = SMD_MPI_OPENMPI; i <= SMD_MPI_MPICH; i++) {
		if ((wanted == SMD_MPI_ANY || wanted == i) && is_in_path(programs[i])) {
			return i;
		}
	}
	gethostname(host, sizeof(host) - 1);
	return smd_error_set(error, ENOENT,
		"no launcher of MPI is in PATH on host %s: %s; install it there, or in the image",
		host,
		wanted == SMD_MPI_OPENMPI ? "orterun of Open MPI 4 (Debian: openmpi-bin) is wanted"
		: wanted == SMD_MPI_MPICH ? "mpiexec.hydra of MPICH (Debian: mpich) is wanted"
					  : "neither orterun of Open MPI 4 (Debian: openmpi-bin) "
					    "nor mpiexec.hydra of MPICH (Debian: mpich)");
}

int smd_mpi_launcher_argv(const struct smd_mpi_options *options, int nranks, char **command,
	char ***out, struct smd_error *error)
{
	static char number[16];
	int launcher = choose(options->launcher, error);
	/* The directory of ranks is their replica's, which the chief's host need not have. */
	const char *const words[] = {launcher > 0 ? programs[launcher] : NULL, "-n", number,
		"-wdir", "/", SMD_MPI_PROGRAM, "rank", "--", NULL};
	/* Open MPI has a variable for it. */
	int binds = launcher == SMD_MPI_MPICH && strcmp(options->binding, SMD_MPI_NOT_BOUND) != 0;
	char **argv;
	size_t count = 0;
	size_t own = 0;

	if (launcher < 0) {
		return launcher;
	}
	while (command[count]) {
		count++;
	}
	argv = calloc(WORDS_MAX + count + 1, sizeof(*argv));
	if (!argv) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	snprintf(number, sizeof(number), "%d", nranks);
	for (size_t i = 0; words[i]; i++) {
		if (i == 1 && binds) {
			argv[own++] = (char *)(uintptr_t) "-bind-to";
			argv[own++] = (char *)(uintptr_t)options->binding;
		}
		argv[own++] = (char *)(uintptr_t)words[i];
	}
	memcpy(argv + own, command, count * sizeof(*argv));
	*out = argv;
	return 0;
}
