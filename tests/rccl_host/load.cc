/* RCCL's own loader finds the plugin and its tuner, and two processes sum through the reduction servers by the table that RCCL
 * has of it, as RCCL's headers declare it. Nothing here needs a GPU, nor HIP's runtime. */
#include "comm.h" /* RCCL's, and */
#include "net.h"
#include "tuner.h"

#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

enum { RANKS = 2, COUNT = 1 << 20 };

#define CHECK(condition)                                                                           \
	((condition) ? (void)0                                                                     \
		     : (fprintf(stderr, "load: line %d: must hold: %s\n", __LINE__, #condition),   \
			       exit(1)))

/* All that RCCL's log wants of HIP's runtime. */
hipError_t hipGetDevice(int *device)
{
	*device = 0;
	return hipSuccess;
}

static ncclCollNet_t *coll;
static int other; /* a socket to the other rank */

static void load()
{
	static ncclComm comm;
	ncclTuner_t *tuner = nullptr;
	void *context;

	CHECK(ncclNetPluginInit() == ncclSuccess);
	CHECK(ncclNetInit(&comm) == ncclSuccess);
	CHECK(comm.ncclNet && comm.ncclCollNet);
	CHECK(ncclTunerPluginLoad(&tuner) == ncclSuccess && tuner);
	printf("net %s, CollNet %s, tuner %s\n", comm.ncclNet->name, comm.ncclCollNet->name, tuner->name);
	CHECK(tuner->init(RANKS, RANKS, ncclDebugLog, &context) == ncclSuccess);
	CHECK(tuner->destroy(context) == ncclSuccess);
	CHECK(ncclTunerPluginUnload(&tuner) == ncclSuccess);
	coll = comm.ncclCollNet;
}

static void *connect_all(int rank)
{
	char handles[RANKS][NCCL_NET_HANDLE_MAXSIZE] = {};
	void *list[RANKS], *listening, *group;
	ncclNetProperties_t properties;
	int ndevices = 0;

	CHECK(coll->devices(&ndevices) == ncclSuccess && ndevices > 0);
	CHECK(coll->getProperties(0, &properties) == ncclSuccess && properties.speed > 0);
	CHECK(coll->listen(0, handles[rank], &listening) == ncclSuccess);
	CHECK(write(other, handles[rank], sizeof(handles[rank])) == sizeof(handles[rank]));
	CHECK(read(other, handles[1 - rank], sizeof(handles[rank])) == sizeof(handles[rank]));
	for (int r = 0; r < RANKS; r++) {
		list[r] = handles[r];
	}
	CHECK(coll->connect(list, RANKS, rank, listening, &group) == ncclSuccess);
	CHECK(coll->closeListen(listening) == ncclSuccess);
	return group;
}

static void sum(void *group, int rank)
{
	std::vector<float> in(COUNT), out(COUNT);
	void *in_memory, *out_memory, *request = nullptr;
	int done = 0, size = 0;

	for (int i = 0; i < COUNT; i++) {
		in[i] = (float)(i % 997 + rank);
	}
	CHECK(coll->regMr(group, in.data(), COUNT * sizeof(float), NCCL_PTR_HOST, &in_memory) == ncclSuccess);
	CHECK(coll->regMr(group, out.data(), COUNT * sizeof(float), NCCL_PTR_HOST, &out_memory) == ncclSuccess);
	CHECK(coll->iallreduce(group, in.data(), out.data(), COUNT, ncclFloat, ncclSum, in_memory, out_memory,
		      &request) == ncclSuccess);
	while (!done) {
		CHECK(coll->test(request, &done, &size) == ncclSuccess);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(out[i] == (float)(2 * (i % 997) + 1));
	}
	CHECK(coll->deregMr(group, in_memory) == ncclSuccess);
	CHECK(coll->deregMr(group, out_memory) == ncclSuccess);
}

static void play(int rank)
{
	void *group;

	load();
	group = connect_all(rank);
	sum(group, rank);
	CHECK(coll->closeColl(group) == ncclSuccess);
	printf("rank %d: the sum is right\n", rank);
	fflush(stdout);
	_exit(0); /* RCCL's own end may call what is not there */
}

int main()
{
	int pair[2], failed = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	for (int rank = 0; rank < RANKS; rank++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			other = pair[rank];
			play(rank);
		}
	}
	for (int rank = 0; rank < RANKS; rank++) {
		int status = 0;

		CHECK(wait(&status) > 0);
		failed |= status != 0;
	}
	fflush(stdout);
	_exit(failed);
}
