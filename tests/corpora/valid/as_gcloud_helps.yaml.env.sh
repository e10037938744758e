export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-73a4fbcec0-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"machineSpec":{"machineType":"n1-highmem-2"},"replicaCount":1,"containerSpec":{"imageUri":"gcr.io/ucaip-test/ucaip-training-test","args":["port=8500"],"command":["start"]}}]}}'
export CLOUD_ML_JOB_ID='73a4fbcec0'
export SUMMAND_JOB_ID='73a4fbcec0'
export SUMMAND_REPLICA='workerpool0-0'
