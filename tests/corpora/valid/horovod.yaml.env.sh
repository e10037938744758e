export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-a2dd1a7721-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"machineSpec":{"machineType":"n1-standard-16","acceleratorType":"NVIDIA_TESLA_V100","acceleratorCount":2},"containerSpec":{"imageUri":"example/horovod","command":["horovodrun","-np","2","-H","localhost:2","python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='a2dd1a7721'
export SUMMAND_JOB_ID='a2dd1a7721'
export SUMMAND_REPLICA='workerpool0-0'
