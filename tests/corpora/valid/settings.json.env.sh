export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-152a40ec27-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"containerSpec":{"imageUri":"example/train","command":["true"]}}],"scheduling":{"restartJobOnWorkerRestart":true,"disableRetries":false,"maxWaitDuration":"0s"}}}'
export CLOUD_ML_JOB_ID='152a40ec27'
export SUMMAND_JOB_ID='152a40ec27'
export SUMMAND_REPLICA='workerpool0-0'
