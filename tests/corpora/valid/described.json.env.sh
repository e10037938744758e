export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-14581c30ba-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"machineSpec":{"machineType":"n1-standard-8"},"replicaCount":"1","diskSpec":{"bootDiskType":"pd-ssd","bootDiskSizeGb":100},"containerSpec":{"imageUri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='14581c30ba'
export SUMMAND_JOB_ID='14581c30ba'
export SUMMAND_REPLICA='workerpool0-0'
