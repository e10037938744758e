"""Stands in for deepspeed.init_distributed(): its variables, and on Azure ML those of Open MPI in their place."""

import os

import meeting

REQUIRED = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"]

if not all(name in os.environ for name in REQUIRED):
    # Without them it asks mpi4py, unless it is on Azure ML (in_aml, patch_aml_env_for_torch_nccl_backend).
    assert "AZUREML_EXPERIMENT_ID" in os.environ
    os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
    os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
    single_node = int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"]) == int(os.environ["WORLD_SIZE"])
    if single_node:
        os.environ["MASTER_ADDR"] = os.environ["AZ_BATCHAI_MPI_MASTER_NODE"]
        os.environ["MASTER_PORT"] = "54965"
    else:
        os.environ["MASTER_ADDR"] = os.environ["AZ_BATCH_MASTER_NODE"].split(":")[0]
        os.environ.setdefault("MASTER_PORT", "6105")  # not that of AZ_BATCH_MASTER_NODE
    os.environ["LOCAL_RANK"] = os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]
meeting.meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"]),
             os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
