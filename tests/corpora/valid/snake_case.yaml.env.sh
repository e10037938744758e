export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-2bd8034235-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"worker_pool_specs":[{"machine_spec":{"machine_type":"e2-standard-4"},"container_spec":{"image_uri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='2bd8034235'
export SUMMAND_JOB_ID='2bd8034235'
export SUMMAND_REPLICA='workerpool0-0'
