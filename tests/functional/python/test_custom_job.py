"""CustomJob: specs in their forms, the life of a job, and errors in the words of the command line."""

import json
import os
import signal
import subprocess
import sys
import unittest
from unittest import mock

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "perf"),
                os.path.join(os.environ["SUMMAND_BUILD"], "share", "summand", "python")]

from programs import ProgramTest
from summand import CustomJob, SummandError

PATIENCE_S = 180  # only what hangs takes longer, also where other work has the processors


def pool(script, replicas=1, **more):
    """As google-cloud-aiplatform writes it."""
    return {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": replicas,
            "container_spec": {"image_uri": "x", "command": ["bash", "-c", script], **more}}


class CustomJobTest(ProgramTest):
    def setUp(self):
        super().setUp()
        variables = mock.patch.dict(os.environ, {"SUMMAND_STATE_DIR": os.path.join(self.folder, "state")})
        variables.start()
        self.addCleanup(variables.stop)

    def run_job(self, job, **options):
        lines = []
        with mock.patch.object(sys, "stdout") as stdout:
            stdout.write = lines.append
            state = job.run(**options)
        self.assertEqual(state, "JOB_STATE_SUCCEEDED")
        return "".join(lines)

    def refused(self, sentence, call, *arguments, kind=SummandError, **named):
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        self.assertIn(sentence, str(caught.exception))

    def test_as_google_writes_it(self):
        job = CustomJob("mine", worker_pool_specs=[
            pool("echo I am $SUMMAND_REPLICA with $my_name in $AIP_MODEL_DIR", env=[{"name": "my_name", "value": "a_b"}]),
            pool("echo I am $SUMMAND_REPLICA", 2)], base_output_dir=self.folder, labels={"my_label": "1"})
        with mock.patch.object(sys, "stderr") as stderr:
            said = self.run_job(job)
        stderr.write.assert_not_called()
        self.assertIn(f"I am workerpool0-0 with a_b in {self.folder}/model", said)
        self.assertIn("I am workerpool1-1", said)
        self.assertEqual((job.display_name, job.state, job.error), ("mine", "JOB_STATE_SUCCEEDED", None))
        self.assertEqual(job.resource["labels"], {"my_label": "1"})
        self.assertTrue(os.path.exists(os.path.join(job.job_directory, "logs", "workerpool1-0.log")))
        self.assertEqual([line.split("\t")[-1] for line in job.logs("workerpool1-0")], ["I am workerpool1-0"])

    def test_other_forms(self):
        container = {"imageUri": "x", "command": ["echo", "hello"]}
        spec = {"displayName": "other", "jobSpec": {"workerPoolSpecs": [
            {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": container}]}}
        path = os.path.join(self.folder, "a job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        for form in (spec, path, spec["jobSpec"], [pool("echo hello")]):
            with self.subTest(form=form):
                self.assertIn("hello", self.run_job(CustomJob(form, display_name="given")))
        self.assertEqual([job.display_name for job in CustomJob.list(limit=2)], ["given", "given"])
        job = CustomJob(spec).submit(display_name="flags too", grace=5, oversubscribe=True)
        self.assertEqual(job.display_name, "flags too")
        job.wait(timeout=float("inf"))
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")
        os.rename(path, "--help")
        self.assertIn("hello", self.run_job(CustomJob("--help")))

    def test_a_life(self):
        marker = os.path.join(self.folder, "go")
        job = CustomJob([pool(f"echo begun; while [ ! -e {marker} ]; do sleep 0.05; done; echo the reason >&2; exit 3")])
        self.refused("the job must have been submitted", lambda: job.state)
        self.assertIs(job.submit(display_name="long"), job)
        self.refused("must not have been submitted before", job.submit)
        for line in job.logs():
            if line.endswith("\tbegun"):
                break
        self.assertEqual(job.state, "JOB_STATE_RUNNING")
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0.1)
        again = CustomJob.get("long")
        self.assertEqual((again.name, repr(again)), (job.name, f"<CustomJob long {job.name}>"))
        self.refused("must be one that was made from a spec", CustomJob._of({}).submit)
        open(marker, "w", encoding="utf-8").close()
        self.refused("The replica workerpool0-0 exited with a non-zero status of 3", again.wait)
        self.assertEqual(job.state, "JOB_STATE_FAILED")
        self.assertIn("the reason", job.error)
        self.assertEqual([each.name for each in CustomJob.list("state=JOB_STATE_FAILED")], [job.name])
        job.delete()
        self.assertEqual(CustomJob.list(), [])
        self.refused("there is no such job", CustomJob.get, job.name)

    def test_cancelled(self):
        job = CustomJob([pool("sleep 1000")]).submit(grace=5)
        job.cancel()
        self.refused("The job was cancelled", job.wait)
        self.assertEqual(job.state, "JOB_STATE_CANCELLED")
        self.refused("must not have ended", job.cancel)

    def test_interrupted(self):
        script = os.path.join(self.folder, "caller.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"from summand import CustomJob\nCustomJob({[pool('echo begun; sleep 1000')]!r}).run(display_name='caller')\n")
        caller = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "PYTHONPATH": sys.path[1]}, start_new_session=True)
        self.addCleanup(self.end, caller)
        while "begun" not in caller.stdout.readline():
            self.assertIsNone(caller.poll())
        os.killpg(caller.pid, signal.SIGINT)  # as a terminal does it
        _, err = caller.communicate(timeout=PATIENCE_S)
        self.assertIn("KeyboardInterrupt", err)
        self.assertEqual(CustomJob.get("caller").state, "JOB_STATE_CANCELLED")

    def test_refused(self):
        bad = CustomJob({"displayName": "x", "jobSpec": {"workerPoolSpecs": [{"replicaCount": 2}]}})
        self.refused("/jobSpec/workerPoolSpecs/0/replicaCount: must be 1", bad.run)
        self.refused("--no-such-flag: unknown option", CustomJob([pool("true")]).submit, no_such_flag=1)
        self.refused("the spec must be a path, a dictionary, or a list of worker pools, got NoneType", CustomJob, kind=TypeError)
        self.refused("worker_pool_specs must be a list", CustomJob, "x", worker_pool_specs={}, kind=TypeError)
        self.refused("the spec must be a file, got '/none.yaml'", CustomJob, "/none.yaml", kind=FileNotFoundError)
        self.refused("base_output_dir must come with worker_pool_specs", CustomJob, {}, base_output_dir="/x", kind=TypeError)
        for name in "nowhere", "--help", "":
            self.refused("there is no such job", CustomJob.get, name)
        self.refused("timeout must be a number of seconds, got nan", CustomJob._of({"name": "x/1"}).wait, float("nan"), kind=ValueError)


if __name__ == "__main__":
    unittest.main(verbosity=2)
