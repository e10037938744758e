"""create and what follows: a job goes on by itself, is watched, ended and deleted, and kill -9 leaves a store that opens."""

import os
import random
import signal
import subprocess
import time
import uuid

from stored import LONG, SUMMAND, StoreTest, at_once, only_here, wait_until

ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


class CreateTest(StoreTest):
    def setUp(self):
        super().setUp()
        self.mark = uuid.uuid4().hex
        self.env["TEST_MARK"] = self.mark

    def marked(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    if self.mark.encode() in environ.read():
                        found.append(int(pid))
            except OSError:
                pass  # it has ended
        return found

    def tearDown(self):
        nothing_left = wait_until(lambda: not self.marked(), 20)
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(nothing_left)

    def create(self, script, *flags, name="stored"):
        out = self.jobs("create", self.write_spec(script, name), "--format=value(name)", *flags)
        return out.strip()

    def state_of(self, job):
        return self.jobs("describe", job, "--format=value(state)").strip()

    def test_it_returns_at_once_and_the_job_goes_on(self):
        go = os.path.join(self.dir, "go")
        job = self.create(f"until [ -e {go} ]; do sleep 0.05; done; exit 0")
        self.assertRegex(job, r"^projects/local/locations/local/customJobs/[1-9][0-9]{18}$")
        self.assertIn(f"CustomJob [{job}] is submitted successfully.\n\nYour job is still active.", self.err)
        self.assertTrue(wait_until(lambda: self.state_of(job) == "JOB_STATE_RUNNING"))
        self.jobs("wait", job, "--timeout=1", code=124)
        open(go, "w", encoding="ascii").close()
        self.jobs("wait", job)
        self.assertEqual(self.state_of(job), "JOB_STATE_SUCCEEDED")

    def test_nothing_of_the_caller_stays_open(self):
        """A command substitution ends when create returns, though the job runs on."""
        begin = time.monotonic()
        job = self.create("sleep 300")
        self.assertLess(time.monotonic() - begin, 120)
        self.assertNotIn(self.state_of(job), ENDED)
        self.jobs("cancel", job)
        self.jobs("wait", job, code=1)

    def test_exit_codes_of_wait(self):
        self.jobs("wait", self.create("exit 0"))
        self.jobs("wait", self.create("exit 3"), code=1)
        self.assertIn("non-zero status of 3", self.err)

    def test_a_wrong_spec_makes_no_job(self):
        self.jobs("create", self.write_spec("true"), "--worker-pool-spec=", code=2)
        self.assertEqual(self.all(), [])

    def test_no_job_where_the_store_cannot_be_written(self):
        self.jobs("list")
        with self.database() as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
        self.jobs("create", self.write_spec("true"), code=1)
        self.assertIn("newer summand", self.err)

    def test_logs_are_streamed_to_the_end(self):
        job = self.create("for i in $(seq 200); do echo line $i; sleep 0.005; done; echo last >&2")
        lines = [line.split("\t") for line in self.jobs("stream-logs", job).splitlines()]
        self.assertEqual([l[3] for l in lines if l[2] == "workerpool0-0" and l[0] == "INFO"], [f"line {i + 1}" for i in range(200)])
        self.assertEqual(lines[-1][2:], ["service", "Job completed successfully."])
        service = self.jobs("stream-logs", job, "--task-name=service").splitlines()
        self.assertEqual([line.split("\t")[3] for line in service],
                         ["Job is preparing.", "Job is running.", "Job completed successfully."])
        self.assertIn("ERROR\t", self.jobs("stream-logs", job, "--task-name=workerpool0-0"))
        self.assertEqual(self.jobs("stream-logs", job, "--polling-interval=60", "--allow-multiline-logs").count("\n"), len(lines))
        self.jobs("stream-logs", job, "--polling-interval=unlimited")
        self.jobs("stream-logs", job, "--polling-interval=0", code=2)

    def test_cancel_ends_a_job_wherever_it_came_from(self):
        job = self.create("trap 'exit 0' TERM; sleep 300 & wait")
        self.assertTrue(wait_until(lambda: self.state_of(job) == "JOB_STATE_RUNNING"))
        self.jobs("cancel", job)
        self.assertIn(f"Request to cancel CustomJob [{job}] has been sent.", self.err)
        self.jobs("wait", job, code=1)
        self.assertEqual(self.state_of(job), "JOB_STATE_CANCELLED")
        self.jobs("cancel", job, code=1)
        run = self.start("sleep 300", name="foreground")
        self.assertTrue(wait_until(lambda: self.all("--filter=displayName=foreground state=RUNNING")))
        self.jobs("cancel", "foreground")
        self.assertEqual(run.wait(LONG), 143)

    def test_cancel_right_after_create(self):
        for _ in range(5):
            job = self.create("sleep 300")
            self.jobs("cancel", job)
            self.jobs("wait", job, code=1)
            self.assertEqual(self.state_of(job), "JOB_STATE_CANCELLED")

    def test_delete(self):
        job = self.create("sleep 300")
        self.jobs("delete", job, code=1)
        self.assertIn("must have ended", self.err)
        self.jobs("cancel", job)
        self.jobs("wait", job, code=1)
        directory = self.jobs("describe", job, "--format=value(jobDirectory)").strip()
        self.assertTrue(os.path.isdir(directory))
        self.jobs("delete", job)
        self.assertFalse(os.path.exists(directory))
        self.assertEqual(self.all(), [])
        mine = os.path.join(self.dir, "mine")
        job = self.create("true", f"--job-dir={mine}")
        self.jobs("wait", job)
        self.jobs("delete", job)
        self.assertTrue(os.path.isdir(mine))
        self.assertIn("stays", self.err)

    @only_here("agents are killed, too, and on other hosts their folders stay for a minute")
    def test_kill_9_at_any_point(self):
        """Of create and of all that it has started: each job that was told of is there, and has ended."""
        told = []
        for i in range(24):
            run = subprocess.Popen([SUMMAND, "custom-jobs", "create", self.write_spec("sleep 300", f"job-{i}"), "--format=value(name)"],
                                   env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            time.sleep(random.Random(i).random() * (0.04 if i % 2 else 0.4))
            for _ in range(2):  # what is forked meanwhile, too
                for pid in self.marked():
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            told += run.communicate()[0].split()
        self.assertTrue(wait_until(lambda: not self.marked()))
        jobs = {job["name"]: job for job in self.all()}
        self.assertEqual([name for name in told if name not in jobs], [])
        for job in jobs.values():
            self.assertIn(job["state"], ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED"))
            self.assertIn("message", job["error"])
        self.jobs("wait", self.create("true"))  # and goes on as ever

    def test_a_store_of_an_older_schema_is_brought_up_to_date(self):
        here = os.path.dirname(os.path.realpath(__file__))
        schemas = sorted(name for name in os.listdir(here) if name.startswith("schema-"))
        versions = set()
        for i, schema in enumerate(schemas):
            self.state = os.path.join(self.dir, schema)
            self.env["SUMMAND_STATE_DIR"] = self.state
            os.mkdir(self.state, 0o700)
            with open(os.path.join(here, schema), encoding="utf-8") as file, self.database() as database:
                database.executescript(file.read())
                self.assertEqual(database.execute("PRAGMA user_version").fetchone()[0], i + 1)
            database.close()
            states = {job["displayName"]: job["state"] for job in self.all()}
            self.assertEqual(states, {"ended": "JOB_STATE_SUCCEEDED", "gone": "JOB_STATE_FAILED"})
            self.assertEqual(self.jobs("describe", "gone", "--format=value(jobSpec.workerPoolSpecs[0].replicaCount)"), "2\n")
            job = self.create("sleep 300")
            self.jobs("cancel", job)
            self.jobs("wait", job, code=1)
            with self.database() as database:
                versions |= set(database.execute("PRAGMA user_version").fetchone())
            database.close()
        self.assertEqual(versions, {len(schemas) + 1})

if __name__ == "__main__":
    at_once.main()
