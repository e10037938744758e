"""The real gcloud against a service: the command of Google's page on reduction servers, verbatim in all but region and image, runs
to its end, and its other verbs say what they say of Vertex AI. Without gcloud it is skipped."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from served import ENDED, JOBS, LONG, SUMMAND, ServiceTest, wait_until

IMAGE = "gcr.io/demo/train"
SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


class Gcloud(ServiceTest):
    def setUp(self):
        super().setUp()
        images = os.path.join(self.dir, "images.json")
        with open(images, "w", encoding="utf-8") as file:
            json.dump({IMAGE: ["bash", "-c", "echo rank $RANK of $WORLD_SIZE, ${SUMMAND_REDUCTION_SERVERS//[^,]/} servers"]}, file)
        self.serve("--oversubscribe", f"--images={images}", "--ready-timeout=120")
        said = subprocess.run([SUMMAND, "env-gcloud", "--project=demo"], env=self.env, capture_output=True, text=True,
                              timeout=LONG, check=True).stdout
        variables = dict(line[len("export "):].split("=", 1) for line in said.splitlines() if line.startswith("export "))
        self.gcloud_env = dict(os.environ, CLOUDSDK_CONFIG=os.path.join(self.dir, "gcloud"), CLOUDSDK_CORE_DISABLE_USAGE_REPORTING="1",
                               CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK="1", **variables)

    def gcloud(self, *words, code=0, seconds=3 * LONG, group="custom-jobs"):
        run = subprocess.run(["gcloud", "ai", group, *words, "--region=us-central1"], env=self.gcloud_env,
                             capture_output=True, text=True, timeout=seconds, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr + self.service.said())
        self.err = run.stderr
        return run.stdout

    def made(self, *words):
        return self.gcloud("create", "--display-name=DISPLAY_NAME", *words, "--format=value(name)").strip().rsplit("/", 1)[1]

    def test_the_command_of_googles_page(self):
        number = self.made(
            "--worker-pool-spec=machine-type=n1-highmem-96,replica-count=1,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=8,"
            f"container-image-uri={IMAGE}",
            "--worker-pool-spec=machine-type=n1-highmem-96,replica-count=4,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=8,"
            f"container-image-uri={IMAGE}",
            f"--worker-pool-spec=machine-type=n1-highcpu-16,replica-count=16,container-image-uri={SERVER}")
        self.assertIn("is submitted successfully", self.err)
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        described = json.loads(self.gcloud("describe", number, "--format=json"))
        self.assertEqual(described["state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual([pool["replicaCount"] for pool in described["jobSpec"]["workerPoolSpecs"]], ["1", "4", "16"])
        lines = self.gcloud("stream-logs", number, "--polling-interval=1").splitlines()
        tasks = {line.split("\t")[2] for line in lines if line.count("\t") == 3}
        self.assertLessEqual({"workerpool0-0", *(f"workerpool1-{i}" for i in range(4)), *(f"workerpool2-{i}" for i in range(16))}, tasks)
        said = [line.split("\t")[3] for line in lines]
        self.assertEqual(sorted(line for line in said if line.startswith("rank")),
                         [f"rank {i} of 5, {',' * 15} servers" for i in range(5)])
        self.assertIn("Job completed successfully.", said)

    def test_lists_failures_and_cancels(self):
        pool = "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,container-image-uri=local"
        bad = self.made(pool, "--command=bash", "--args=-c,echo no such file >&2; exit 3")
        long = self.made(pool, "--command=sleep", "--args=300")
        self.await_state(bad, "JOB_STATE_FAILED")
        self.assertIn("no such file", self.gcloud("describe", bad, "--format=value(error.message)"))
        self.await_state(long, "JOB_STATE_RUNNING")
        self.assertIn("Request to cancel CustomJob", self.gcloud("cancel", long) + self.err)
        self.await_state(long, "JOB_STATE_CANCELLED")
        names = self.gcloud("list", "--format=value(name.basename())").split()
        self.assertEqual(names, [long, bad])
        self.gcloud("create", "--display-name=x", "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/none/here",
                    code=1)
        self.assertIn("INVALID_ARGUMENT", self.err)
        self.assertIn("custom_job.job_spec.worker_pool_specs[0]", self.err)
        self.assertEqual(len(self.ask("GET", JOBS)["customJobs"]), 2)


    def test_a_tuning_job(self):
        config = os.path.join(self.dir, "tuning.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("""
studySpec:
  algorithm: RANDOM_SEARCH
  metrics: [{metricId: loss, goal: MINIMIZE}]
  parameters:
  - parameterId: x
    integerValueSpec: {minValue: 1, maxValue: 9}
trialJobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec:
      imageUri: local
      command:
      - bash
      - -c
      - mkdir -p ${CLOUD_ML_HP_METRIC_FILE%/*};
        echo '{"timestamp":1,"trial":"'$CLOUD_ML_TRIAL_ID'","loss":"0.5","global_step":"1","checkpoint_path":""}' >$CLOUD_ML_HP_METRIC_FILE
""")
        name = self.gcloud("create", "--display-name=tuned", f"--config={config}", "--max-trial-count=2", "--parallel-trial-count=2",
                           "--format=value(name)", group="hp-tuning-jobs").strip()
        self.assertIn("submitted successfully", self.err)
        wait_until(lambda: self.ask("GET", f"/v1/{name}")["state"] in ENDED)
        described = json.loads(self.gcloud("describe", name.rsplit("/", 1)[1], "--format=json", group="hp-tuning-jobs"))
        self.assertEqual(described["state"], "JOB_STATE_SUCCEEDED", described)
        self.assertEqual([(trial["state"], trial["finalMeasurement"]["metrics"][0]["value"]) for trial in described["trials"]],
                         [("SUCCEEDED", 0.5)] * 2)
        self.assertEqual(self.gcloud("list", "--format=value(displayName)", group="hp-tuning-jobs").split(), ["tuned"])


if __name__ == "__main__":
    if not shutil.which("gcloud"):
        print("skipped: there is no gcloud here")
        sys.exit(77)
    unittest.main()
