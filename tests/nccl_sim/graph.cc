/* Graphs of the simulated GPU: how they are made, by capture (stream.cc) or by hand, instantiated and launched. A launch is one
 * piece of work of its stream, in which every node has a thread that waits for those before it, so that what a graph does not put
 * in order goes on at the same time, as on a GPU.
 */
#include "graph.h"

#include "driver.h"
#include "stream.h"

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <thread>

struct CUgraphNode_st {
	size_t number; /* in the graph; those that it depends on have lower ones, or are added later by hand */
	std::function<smd_work()> arm;
	std::vector<size_t> after;
};

/* What a graph and its executables hold, and is destroyed after the last of them, and the last launch. */
struct CUuserObject_st {
	cudaHostFn_t destroy;
	void *object;

	~CUuserObject_st()
	{
		destroy(object);
	}
};

struct CUgraph_st {
	unsigned long long id;
	std::deque<CUgraphNode_st> nodes; /* whose places stay */
	std::vector<std::shared_ptr<CUuserObject_st>> objects;
};

struct CUgraphExec_st {
	std::shared_ptr<const CUgraph_st> graph; /* as it was when it was instantiated */
};

cudaGraph_t smd_graph_create()
{
	static std::atomic<unsigned long long> graphs;

	return new CUgraph_st{++graphs, {}, {}};
}

unsigned long long smd_graph_id(cudaGraph_t graph)
{
	return graph->id;
}

cudaGraphNode_t smd_graph_add(cudaGraph_t graph, const smd_nodes &after, std::function<smd_work()> arm)
{
	graph->nodes.push_back({graph->nodes.size(), std::move(arm), {}});
	for (cudaGraphNode_t node : after) {
		graph->nodes.back().after.push_back(node->number);
	}
	return &graph->nodes.back();
}

/* ---- nodes that are added by hand ---- */

static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
	std::function<smd_work()> arm)
{
	*node = smd_graph_add(graph, smd_nodes(after, after + count), std::move(arm));
	return cudaSuccess;
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
	size_t count, const cudaHostNodeParams *host)
{
	smd_work work = [function = host->fn, argument = host->userData] { function(argument); };

	return add(node, graph, after, count, [work] { return work; });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
	size_t count, const cudaKernelNodeParams *kernel)
{
	smd_work work = smd_driver_kernel(kernel->func, kernel->kernelParams);

	return add(node, graph, after, count, [work] { return work; });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
	size_t count, cudaEvent_t event)
{
	return add(node, graph, after, count, smd_event_record(event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
	size_t count, cudaEvent_t event)
{
	return add(node, graph, after, count, smd_event_wait(event));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
	const cudaGraphEdgeData *, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to[i]->after.push_back(from[i]->number);
	}
	return cudaSuccess;
}

/* ---- objects ---- */

/* NCCL gives the only reference that it has away at once. */
cudaError_t cudaUserObjectCreate(
	cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy, unsigned references, unsigned)
{
	*object = new CUuserObject_st{destroy, pointer};
	return references == 1 ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned references, unsigned flags)
{
	graph->objects.emplace_back(object);
	return references == 1 && flags == cudaGraphUserObjectMove ? cudaSuccess : cudaErrorNotSupported;
}

/* ---- launch ---- */

static void launch(const CUgraph_st &graph, const std::vector<smd_work> &works)
{
	std::vector<std::promise<void>> promises(works.size());
	std::vector<std::shared_future<void>> done;
	std::vector<std::thread> threads;

	for (auto &promise : promises) {
		done.push_back(promise.get_future().share());
	}
	for (const CUgraphNode_st &node : graph.nodes) {
		threads.emplace_back([&] {
			for (size_t before : node.after) {
				done[before].wait();
			}
			works[node.number]();
			promises[node.number].set_value();
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
	std::vector<smd_work> works;

	for (const CUgraphNode_st &node : executable->graph->nodes) {
		works.push_back(node.arm());
	}
	smd_stream_add(stream, [graph = executable->graph, works] { launch(*graph, works); });
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
	*executable = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
	delete executable;
	return cudaSuccess;
}
