snake_case.yaml:1:1: warning: /job_spec: should be spelled jobSpec
snake_case.yaml:2:3: warning: /job_spec/worker_pool_specs: should be spelled workerPoolSpecs
snake_case.yaml:3:7: warning: /job_spec/worker_pool_specs/0/machine_spec: should be spelled machineSpec
snake_case.yaml:3:22: warning: /job_spec/worker_pool_specs/0/machine_spec/machine_type: should be spelled machineType
snake_case.yaml:4:7: warning: /job_spec/worker_pool_specs/0/container_spec: should be spelled containerSpec
snake_case.yaml:4:24: warning: /job_spec/worker_pool_specs/0/container_spec/image_uri: should be spelled imageUri
snake_case.yaml:5:1: warning: /display_name: should be spelled displayName
export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-2bd8034235-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"worker_pool_specs":[{"machine_spec":{"machine_type":"e2-standard-4"},"container_spec":{"image_uri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='2bd8034235'
export SUMMAND_JOB_ID='2bd8034235'
export SUMMAND_REPLICA='workerpool0-0'
