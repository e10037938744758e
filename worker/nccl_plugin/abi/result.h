/* The NCCL code for an -errno of ours: who is to blame is what users see of it. */
#ifndef SMD_NCCL_PLUGIN_ABI_RESULT_H
#define SMD_NCCL_PLUGIN_ABI_RESULT_H

int smd_nccl_result(int err);

#endif
