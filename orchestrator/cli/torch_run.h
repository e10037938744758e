/*
 * `summand torch-run`: a PyTorch script in several processes, as Spark's TorchDistributor runs it.
 */
#ifndef SMD_CLI_TORCH_RUN_H
#define SMD_CLI_TORCH_RUN_H

int smd_torch_run(int argc, char **argv);

#endif
