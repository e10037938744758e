export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-c367899b8c-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"machineSpec":{"machineType":"e2-standard-4"},"containerSpec":{"imageUri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='c367899b8c'
export SUMMAND_JOB_ID='c367899b8c'
export SUMMAND_REPLICA='workerpool0-0'
