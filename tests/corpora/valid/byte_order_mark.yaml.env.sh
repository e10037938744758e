export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-ee71595e69-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"containerSpec":{"imageUri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='ee71595e69'
export SUMMAND_JOB_ID='ee71595e69'
export SUMMAND_REPLICA='workerpool0-0'
