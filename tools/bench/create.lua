-- wrk creates jobs: each request is a job of its own, and an answer without a name is counted.
local body = [[{"displayName": "bench", "labels": {"team": "blue"}, "jobSpec": {"workerPoolSpecs": [
  {"replicaCount": "1", "machineSpec": {"machineType": "n1-standard-4"}, "containerSpec":
    {"imageUri": "local", "command": ["python3", "train.py"], "args": ["--epochs=10", "--lr=0.1"],
     "env": [{"name": "DATA", "value": "/srv/data"}]}},
  {"replicaCount": "3", "machineSpec": {"machineType": "n1-standard-4"}, "containerSpec":
    {"imageUri": "local", "command": ["python3", "train.py"]}}]}}]]

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = body
