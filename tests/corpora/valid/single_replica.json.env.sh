export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-4166d93714-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"containerSpec":{"imageUri":"example/train","command":["true"]}}]}}'
export CLOUD_ML_JOB_ID='4166d93714'
export SUMMAND_JOB_ID='4166d93714'
export SUMMAND_REPLICA='workerpool0-0'
