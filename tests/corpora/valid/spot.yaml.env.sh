export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-6125908a88-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"scheduling":{"strategy":"SPOT","timeout":"86400s","restartJobOnWorkerRestart":true,"maxWaitDuration":"3600s"},"serviceAccount":"trainer@project.iam.gserviceaccount.com","network":"projects/12345/global/networks/training","workerPoolSpecs":[{"machineSpec":{"machineType":"n2-standard-8"},"diskSpec":{"bootDiskType":"pd-ssd","bootDiskSizeGb":200},"containerSpec":{"imageUri":"example/train","command":["python3","train.py"]}}]}}'
export CLOUD_ML_JOB_ID='6125908a88'
export SUMMAND_JOB_ID='6125908a88'
export SUMMAND_REPLICA='workerpool0-0'
