/* What programs do with NCCL, and go through with it: one rank of a scenario, which checks every
 * result.
 *
 *   scenario NAME --nranks=N --rank=R --id-file=FILE */
#include "rank.h"

#include <string.h>
#include <unistd.h>

enum { SMALL = 1 << 10, LARGE = 1 << 20 }; /* elements: below SUMMAND_NCCL_MIN_BYTES, and above */

static int all_ranks(const struct smd_rank *rank)
{
	return smd_rank_sum(rank, 0, 1);
}

/* Each turn has other numbers: those of ranks that are so much higher. */
static void turn_fill(const struct smd_rank *rank, float *device, size_t count, int turn)
{
	struct smd_rank turned = *rank;

	turned.rank += turn;
	smd_rank_fill(&turned, device, count);
}

static int turn_sum(const struct smd_rank *rank, int turn)
{
	return all_ranks(rank) + turn * rank->nranks;
}

static void two_sizes(const struct smd_rank *rank, ncclComm_t communicator)
{
	smd_rank_all_reduce(rank, communicator, SMALL, all_ranks(rank));
	smd_rank_all_reduce(rank, communicator, LARGE, all_ranks(rank));
}

/* ---- collectives: those that go from rank to rank ---- */

enum { COUNT = 100003, PERIOD = 997, STRIDE = 1000 }; /* no power of two divides it */

/* Element i of what a rank has. */
static int element(int rank, size_t i)
{
	return rank * STRIDE + (int)(i % PERIOD);
}

struct exchange {
	const struct smd_rank *rank;
	ncclComm_t communicator;
	int *in, *out, *host; /* nranks * COUNT elements each */
};

static void fetch(const struct exchange *exchange)
{
	smd_rank_finish(exchange->rank);
	smd_rank_copy(exchange->host, exchange->out,
		(size_t)exchange->rank->nranks * COUNT * sizeof(int));
}

static void all_gather(const struct exchange *exchange)
{
	size_t wrong = 0;

	SMD_NCCL(ncclAllGather(exchange->in, exchange->out, COUNT, ncclInt, exchange->communicator,
		exchange->rank->stream));
	fetch(exchange);
	for (int r = 0; r < exchange->rank->nranks; r++) {
		for (size_t i = 0; i < COUNT; i++) {
			wrong += exchange->host[(size_t)r * COUNT + i] != element(r, i);
		}
	}
	smd_rank_judge("all-gather", wrong);
}

static void reduce_scatter(const struct exchange *exchange)
{
	size_t wrong = 0, first = (size_t)exchange->rank->rank * COUNT;

	SMD_NCCL(ncclReduceScatter(exchange->in, exchange->out, COUNT, ncclInt, ncclSum,
		exchange->communicator, exchange->rank->stream));
	fetch(exchange);
	for (size_t i = 0; i < COUNT; i++) {
		int sum = 0;

		for (int r = 0; r < exchange->rank->nranks; r++) {
			sum += element(r, first + i);
		}
		wrong += exchange->host[i] != sum;
	}
	smd_rank_judge("reduce-scatter", wrong);
}

static void broadcast(const struct exchange *exchange)
{
	size_t wrong = 0;
	int root = exchange->rank->nranks - 1;

	SMD_NCCL(ncclBroadcast(exchange->in, exchange->out, COUNT, ncclInt, root,
		exchange->communicator, exchange->rank->stream));
	fetch(exchange);
	for (size_t i = 0; i < COUNT; i++) {
		wrong += exchange->host[i] != element(root, i);
	}
	smd_rank_judge("broadcast", wrong);
}

static void all_to_all(const struct exchange *exchange)
{
	size_t wrong = 0, first = (size_t)exchange->rank->rank * COUNT;

	SMD_NCCL(ncclGroupStart());
	for (int r = 0; r < exchange->rank->nranks; r++) {
		size_t at = (size_t)r * COUNT;

		SMD_NCCL(ncclSend(exchange->in + at, COUNT, ncclInt, r, exchange->communicator,
			exchange->rank->stream));
		SMD_NCCL(ncclRecv(exchange->out + at, COUNT, ncclInt, r, exchange->communicator,
			exchange->rank->stream));
	}
	SMD_NCCL(ncclGroupEnd());
	fetch(exchange);
	for (int r = 0; r < exchange->rank->nranks; r++) {
		for (size_t i = 0; i < COUNT; i++) {
			wrong += exchange->host[(size_t)r * COUNT + i] != element(r, first + i);
		}
	}
	smd_rank_judge("send and receive", wrong);
}

static void collectives(const struct smd_rank *rank, ncclComm_t communicator)
{
	size_t count = (size_t)rank->nranks * COUNT, bytes = count * sizeof(int);
	struct exchange exchange = {rank, communicator, smd_rank_allocate(bytes),
		smd_rank_allocate(bytes), malloc(bytes)};

	if (!exchange.host) {
		abort();
	}
	for (size_t i = 0; i < count; i++) {
		exchange.host[i] = element(rank->rank, i);
	}
	smd_rank_copy(exchange.in, exchange.host, bytes);
	all_gather(&exchange);
	reduce_scatter(&exchange);
	broadcast(&exchange);
	all_to_all(&exchange);
	two_sizes(rank, communicator);
	SMD_CUDA(cudaFree(exchange.in));
	SMD_CUDA(cudaFree(exchange.out));
	free(exchange.host);
}

/* ---- several communicators ---- */

/* Half of the ranks, and all in another order, each beside their parent. */
static void split(const struct smd_rank *rank, ncclComm_t communicator)
{
	int parity = rank->rank % 2;
	ncclComm_t half, turned;

	SMD_NCCL(ncclCommSplit(communicator, parity, rank->rank, &half, NULL));
	SMD_NCCL(ncclCommSplit(communicator, 0, rank->nranks - rank->rank, &turned, NULL));
	smd_rank_all_reduce(rank, half, LARGE, smd_rank_sum(rank, parity, 2));
	two_sizes(rank, turned);
	two_sizes(rank, communicator);
	SMD_NCCL(ncclCommDestroy(half));
	SMD_NCCL(ncclCommDestroy(turned));
	two_sizes(rank, communicator);
}

static void several(const struct smd_rank *rank, ncclComm_t communicator)
{
	enum { MORE = 3 };
	const char *names[MORE] = {"one", "two", "three"};
	ncclComm_t more[MORE];

	for (int i = 0; i < MORE; i++) {
		more[i] = smd_rank_meet(rank, names[i]);
		two_sizes(rank, more[i]);
	}
	for (int i = MORE - 1; i >= 0; i--) {
		two_sizes(rank, more[i]);
		SMD_NCCL(ncclCommDestroy(more[i]));
	}
	two_sizes(rank, communicator);
}

/* ---- group: many operations at a time ---- */

enum { OPERATIONS = 24 };

static size_t group_count(int operation)
{
	return operation % 3 ? (size_t)(1000 + 37 * operation)
			     : (size_t)(300000 + 7777 * operation);
}

static void group_round(
	const struct smd_rank *rank, ncclComm_t *communicators, cudaStream_t *streams)
{
	float *device[OPERATIONS];

	for (int k = 0; k < OPERATIONS; k++) {
		device[k] = smd_rank_allocate(group_count(k) * sizeof(float));
		turn_fill(rank, device[k], group_count(k), k);
	}
	SMD_NCCL(ncclGroupStart());
	for (int k = 0; k < OPERATIONS; k++) {
		SMD_NCCL(ncclAllReduce(device[k], device[k], group_count(k), ncclFloat, ncclSum,
			communicators[k % 2], streams[k % 2]));
	}
	SMD_NCCL(ncclGroupEnd());
	SMD_CUDA(cudaStreamSynchronize(streams[0]));
	SMD_CUDA(cudaStreamSynchronize(streams[1]));
	for (int k = 0; k < OPERATIONS; k++) {
		smd_rank_check("group", device[k], group_count(k), turn_sum(rank, k));
		SMD_CUDA(cudaFree(device[k]));
	}
}

/* In one communicator, and in two. */
static void group(const struct smd_rank *rank, ncclComm_t communicator)
{
	ncclComm_t two = smd_rank_meet(rank, "two");
	cudaStream_t stream;

	SMD_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < 2; i++) {
		group_round(rank, (ncclComm_t[]){communicator, communicator},
			(cudaStream_t[]){rank->stream, rank->stream});
		group_round(rank, (ncclComm_t[]){communicator, two},
			(cudaStream_t[]){rank->stream, stream});
	}
	SMD_NCCL(ncclCommDestroy(two));
	SMD_CUDA(cudaStreamDestroy(stream));
}

/* ---- registered: the program's own memory, which NCCL need not copy ---- */

/* From one part of the memory to another, and in place. */
static void sum_registered(
	const struct smd_rank *rank, ncclComm_t communicator, float *in, float *out, size_t count)
{
	smd_rank_fill(rank, in, count);
	SMD_NCCL(ncclAllReduce(in, out, count, ncclFloat, ncclSum, communicator, rank->stream));
	smd_rank_finish(rank);
	smd_rank_check("registered", out, count, all_ranks(rank));
	smd_rank_check("registered input", in, count, rank->rank + 1);
	SMD_NCCL(ncclAllReduce(in, in, count, ncclFloat, ncclSum, communicator, rank->stream));
	smd_rank_finish(rank);
	smd_rank_check("registered in place", in, count, all_ranks(rank));
}

/* Beside memory that is not; and again in other memory, which may lie where the first did. */
static void registered(const struct smd_rank *rank, ncclComm_t communicator)
{
	static const size_t counts[] = {LARGE, 2 * LARGE + 1, 3 * LARGE - 12345};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		size_t bytes = 2 * counts[i] * sizeof(float);
		float *memory = smd_rank_allocate(bytes);
		void *handle;

		SMD_NCCL(ncclCommRegister(communicator, memory, bytes, &handle));
		sum_registered(rank, communicator, memory, memory + counts[i], counts[i]);
		sum_registered(rank, communicator, memory + counts[i], memory, counts[i]);
		two_sizes(rank, communicator);
		SMD_NCCL(ncclCommDeregister(communicator, handle));
		SMD_CUDA(cudaFree(memory));
	}
}

/* ---- whole: as much of it as NCCL makes one operation of ---- */

/* From one part to another: in place NCCL up to 2.27 does not register a chain's. */
static void whole(const struct smd_rank *rank, ncclComm_t communicator)
{
	size_t bytes = (size_t)1 << 30;
	size_t count = bytes / sizeof(float);
	float *memory = smd_rank_allocate(2 * bytes);
	void *handle;

	SMD_NCCL(ncclCommRegister(communicator, memory, 2 * bytes, &handle));
	smd_rank_fill(rank, memory, count);
	SMD_NCCL(ncclAllReduce(
		memory, memory + count, count, ncclFloat, ncclSum, communicator, rank->stream));
	smd_rank_finish(rank);
	smd_rank_check("whole", memory + count, count, all_ranks(rank));
	SMD_NCCL(ncclCommDeregister(communicator, handle));
	SMD_CUDA(cudaFree(memory));
}

/* ---- graph: sums that are captured once and launched again and again ---- */

enum { TURNS = 3 };

struct captured {
	const struct smd_rank *rank;
	ncclComm_t communicator, beside;
	cudaStream_t stream; /* of the communicator beside */
	float *in, *out, *other, *small;
	size_t count;
};

/* What is put into one stream comes after what is in the other one, and is captured with it. */
static void follow(cudaStream_t to, cudaStream_t from)
{
	cudaEvent_t event;

	SMD_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	SMD_CUDA(cudaEventRecord(event, from));
	SMD_CUDA(cudaStreamWaitEvent(to, event, 0));
	SMD_CUDA(cudaEventDestroy(event));
}

/* From one memory to another and then in place, beside a small sum, and another communicator's. */
static cudaGraphExec_t capture(const struct captured *captured)
{
	cudaStream_t stream = captured->rank->stream;
	cudaGraph_t graph;
	cudaGraphExec_t executable;

	SMD_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	follow(captured->stream, stream);
	SMD_NCCL(ncclAllReduce(captured->in, captured->out, captured->count, ncclFloat, ncclSum,
		captured->communicator, stream));
	SMD_NCCL(ncclAllReduce(captured->in, captured->other, captured->count, ncclFloat, ncclSum,
		captured->beside, captured->stream));
	SMD_NCCL(ncclGroupStart());
	SMD_NCCL(ncclAllReduce(captured->in, captured->small, SMALL, ncclFloat, ncclSum,
		captured->communicator, stream));
	SMD_NCCL(ncclAllReduce(captured->out, captured->out, captured->count, ncclFloat, ncclSum,
		captured->communicator, stream));
	SMD_NCCL(ncclGroupEnd());
	follow(stream, captured->stream);
	SMD_CUDA(cudaStreamEndCapture(stream, &graph));
	SMD_CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
	SMD_CUDA(cudaGraphDestroy(graph));
	return executable;
}

/* Each launch has other numbers; between two are sums that were not captured. */
static void launch(const struct captured *captured, cudaGraphExec_t executable, int turn)
{
	const struct smd_rank *rank = captured->rank;
	int sum = turn_sum(rank, turn);

	turn_fill(rank, captured->in, captured->count, turn);
	SMD_CUDA(cudaGraphLaunch(executable, rank->stream));
	if (turn % 2) {
		two_sizes(rank, captured->communicator);
		SMD_CUDA(cudaGraphLaunch(executable, rank->stream));
	}
	smd_rank_finish(rank);
	smd_rank_check("graph", captured->out, captured->count, sum * rank->nranks);
	smd_rank_check("graph, beside", captured->other, captured->count, sum);
	smd_rank_check("graph, small", captured->small, SMALL, sum);
}

/* When a graph has gone its memory goes, and other memory may lie where it did. */
static void graph(const struct smd_rank *rank, ncclComm_t communicator)
{
	static const size_t counts[] = {LARGE, 2 * LARGE - 12345};
	struct captured captured = {.rank = rank, .communicator = communicator};

	captured.beside = smd_rank_meet(rank, "beside");
	SMD_CUDA(cudaStreamCreateWithFlags(&captured.stream, cudaStreamNonBlocking));
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		cudaGraphExec_t executable;

		captured.count = counts[i];
		captured.in = smd_rank_allocate(counts[i] * sizeof(float));
		captured.out = smd_rank_allocate(counts[i] * sizeof(float));
		captured.other = smd_rank_allocate(counts[i] * sizeof(float));
		captured.small = smd_rank_allocate(SMALL * sizeof(float));
		executable = capture(&captured);
		for (int turn = 0; turn < TURNS; turn++) {
			launch(&captured, executable, turn);
		}
		SMD_CUDA(cudaGraphExecDestroy(executable));
		two_sizes(rank, communicator); /* which lets NCCL see that the graph has gone */
		SMD_CUDA(cudaFree(captured.in));
		SMD_CUDA(cudaFree(captured.out));
		SMD_CUDA(cudaFree(captured.other));
		SMD_CUDA(cudaFree(captured.small));
	}
	SMD_NCCL(ncclCommDestroy(captured.beside));
	SMD_CUDA(cudaStreamDestroy(captured.stream));
}

/* ---- lost, abort: a run that cannot go on ---- */

/* A sum, which must be right, or how it fails. */
static ncclResult_t work_once(const struct smd_rank *rank, ncclComm_t communicator, float *in,
	float *out, size_t count, int turn)
{
	enum { PAUSE_US = 1000 };
	ncclResult_t error;

	turn_fill(rank, in, count, turn);
	error = ncclAllReduce(in, out, count, ncclFloat, ncclSum, communicator, rank->stream);
	while (error == ncclSuccess && cudaStreamQuery(rank->stream) == cudaErrorNotReady) {
		SMD_NCCL(ncclCommGetAsyncError(communicator, &error));
		usleep(PAUSE_US);
	}
	if (error == ncclSuccess) {
		smd_rank_check("beside a failure", out, count, turn_sum(rank, turn));
	}
	return error;
}

/* Sums until that fails, which must be by the network's error, or turns are over (0: never). Either
 * way ncclCommAbort() must return. */
static void work_until_lost(const struct smd_rank *rank, ncclComm_t communicator, unsigned turns)
{
	enum { BEFORE_LEAVING_S = 1 };
	size_t count = 4 * LARGE;
	float *in = smd_rank_allocate(count * sizeof(float));
	float *out = smd_rank_allocate(count * sizeof(float));
	ncclResult_t error = ncclSuccess;
	unsigned turn = 0;

	while (error == ncclSuccess && (turns == 0 || turn < turns)) {
		/* Not those of the turn before, whose sums are still where these go. */
		error = work_once(rank, communicator, in, out, count, (int)(turn % 2));
		if (error == ncclSuccess) {
			printf("turn %u\n", ++turn);
		}
	}
	if (error == ncclSuccess) {
		sleep(BEFORE_LEAVING_S); /* so that the others are in the middle of the next */
	}
	printf("after %u: %s\n", turn, ncclGetErrorString(error));
	SMD_NCCL(ncclCommAbort(communicator));
	printf("aborted\n");
	exit(error == (turns == 0 ? ncclRemoteError : ncclSuccess) ? 0 : 1);
}

static void lost(const struct smd_rank *rank, ncclComm_t communicator)
{
	work_until_lost(rank, communicator, 0);
}

static void leave(const struct smd_rank *rank, ncclComm_t communicator)
{
	enum { TURNS = 5 };
	const char *leaves = getenv("SCENARIO_LEAVES"); /* a rank */

	work_until_lost(rank, communicator, leaves && rank->rank == atoi(leaves) ? TURNS : 0);
}

static const struct scenario {
	const char *name;
	void (*play)(const struct smd_rank *rank, ncclComm_t communicator);
} scenarios[] = {
	{"collectives", collectives},
	{"split", split},
	{"several", several},
	{"group", group},
	{"registered", registered},
	{"whole", whole},
	{"graph", graph},
	{"sums", two_sizes},
	{"lost", lost},
	{"abort", leave},
};

static const struct scenario *find(const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (!strcmp(scenarios[i].name, name)) {
			return &scenarios[i];
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct scenario *scenario = argc == 5 ? find(argv[1]) : NULL;
	struct smd_rank rank = {0};
	ncclComm_t communicator;

	if (!scenario || sscanf(argv[2], "--nranks=%d", &rank.nranks) != 1 ||
		sscanf(argv[3], "--rank=%d", &rank.rank) != 1 ||
		strncmp(argv[4], "--id-file=", strlen("--id-file=")) != 0) {
		fprintf(stderr, "scenario: must be NAME --nranks=N --rank=R --id-file=FILE\n");
		return 2;
	}
	rank.id_file = argv[4] + strlen("--id-file=");
	setlinebuf(stdout);
	SMD_CUDA(cudaSetDevice(0));
	SMD_CUDA(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
	communicator = smd_rank_meet(&rank, "all");
	two_sizes(&rank, communicator);
	scenario->play(&rank, communicator);
	SMD_NCCL(ncclCommFinalize(communicator));
	SMD_NCCL(ncclCommDestroy(communicator));
	SMD_CUDA(cudaStreamDestroy(rank.stream));
	printf("done\n");
	return 0;
}
