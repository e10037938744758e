/* A graph of the simulated GPU: work that is done at each launch, each piece after those that it depends on. */
#ifndef SMD_NCCL_SIM_GRAPH_H
#define SMD_NCCL_SIM_GRAPH_H

#include <cuda_runtime_api.h>
#include <functional>
#include <vector>

typedef std::function<void()> smd_work;
typedef std::vector<cudaGraphNode_t> smd_nodes;

cudaGraph_t smd_graph_create();

/* arm is called by each launch, in the order in which nodes were added, and says what is then done in the node's turn. */
cudaGraphNode_t smd_graph_add(cudaGraph_t graph, const smd_nodes &after, std::function<smd_work()> arm);

/* Never 0. */
unsigned long long smd_graph_id(cudaGraph_t graph);

#endif
