"""Pruning: which jobs go, by age, size and number; that nothing else goes; and kill -9 in its middle."""

import datetime
import os
import random
import signal
import subprocess
import time

from stored import SUMMAND, StoreTest, at_once, wait_until

FIRST = 1000000000000000000


def ago(days):
    then = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    return then.strftime("%Y-%m-%dT%H:%M:%S.000000000Z")


class PruneTest(StoreTest):
    def setUp(self):
        super().setUp()
        self.jobs("list")  # makes the store

    def add(self, ages, size=8192, state="JOB_STATE_SUCCEEDED", folder=None):
        """Jobs that ended so many days ago, with a log of that size each; their directories."""
        folder = folder or os.path.join(self.state, "jobs")
        directories = []
        with self.database() as database:
            first = FIRST + database.execute("SELECT count(*) FROM jobs").fetchone()[0]
            for i, age in enumerate(ages):
                directories.append(os.path.join(folder, f"job-{first - FIRST + i}"))
                os.makedirs(os.path.join(directories[-1], "logs"), 0o700)
                with open(os.path.join(directories[-1], "logs", "job.log"), "wb") as file:
                    file.write(b"x" * size)
                end = None if age is None else ago(age)
                database.execute(
                    "INSERT INTO jobs (id, display_name, state, create_time, start_time, end_time, update_time, labels, directory)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, '{}', ?)",
                    (first + i, f"job-{first - FIRST + i}", state, ago(age or 0), ago(age or 0), end, ago(age or 0), directories[-1]))
                database.execute("INSERT INTO specs VALUES (?, '{}')", (first + i,))
        database.close()
        return directories

    def left(self):
        return sorted(int(line[4:]) for line in self.jobs("list", "--format=value(displayName)").split())

    def test_by_age(self):
        directories = self.add([400, 40, 20, 1])
        out = self.jobs("prune", "--older-than=30d", "--dry-run")
        self.assertEqual([line.split()[1] for line in out.splitlines()], ["job-0", "job-1"])
        self.assertIn("Would prune 2 jobs", self.err)
        self.assertEqual(self.left(), [0, 1, 2, 3])
        self.jobs("prune", "--older-than=30d")
        self.assertIn("Pruned 2 jobs", self.err)
        self.assertEqual(self.left(), [2, 3])
        self.assertEqual([os.path.exists(d) for d in directories], [False, False, True, True])
        with self.database() as database:
            self.assertEqual(database.execute("SELECT count(*) FROM specs").fetchone()[0], 2)
        database.close()

    def test_by_size_and_number_those_go_that_ended_first(self):
        self.add([5, 1, 4, 2, 3], size=1 << 20)
        self.jobs("prune", "--keep-size=3500K")
        self.assertEqual(self.left(), [1, 3, 4])
        self.jobs("prune", "--keep=1")
        self.assertEqual(self.left(), [1])
        self.jobs("prune", "--keep=0", "--older-than=5d")
        self.assertEqual(self.left(), [])
        self.jobs("prune", "--keep=x", code=2)
        self.jobs("prune", "--older-than=yesterday", code=2)
        self.jobs("prune", "job-1", code=2)

    def test_without_options_as_every_job_does(self):
        self.add([91, 89])
        self.jobs("prune")
        self.assertEqual(self.left(), [1])
        self.jobs("prune", env=dict(self.env, SUMMAND_JOBS_MAX_AGE="none", SUMMAND_JOBS_MAX_SIZE="none"))
        self.assertEqual(self.left(), [1])
        self.jobs("prune", env=dict(self.env, SUMMAND_JOBS_MAX_AGE="30d"))
        self.assertEqual(self.left(), [])
        self.jobs("prune", env=dict(self.env, SUMMAND_JOBS_MAX_SIZE="many"), code=2)
        self.assertIn("SUMMAND_JOBS_MAX_SIZE: must be none, or a size such as 10G, got many", self.err)

    def test_every_new_job_prunes_a_little_and_says_so(self):
        self.add([100] * 3 + [10])
        self.local_run("true", name="job-9")
        self.assertIn("3 old jobs were removed from the job store", self.err)
        self.assertIn("SUMMAND_JOBS_MAX_AGE", self.err)
        self.assertEqual(self.left(), [3, 9])
        self.local_run("true", name="job-8")
        self.assertNotIn("removed", self.err)
        size = dict(self.env, SUMMAND_JOBS_MAX_SIZE="1K")
        self.jobs("wait", self.jobs("create", self.write_spec("true", "job-7"), "--format=value(name)", env=size).strip())
        self.assertEqual(self.left(), [7, 8, 9])  # those of today stay
        self.add([100])
        script = os.path.join(self.dir, "train.py")
        open(script, "w", encoding="ascii").close()
        self.summand("torch-run", "--no-use-gpu", script)
        self.assertIn("1 old job was removed", self.err)

    def test_a_job_that_runs_stays(self):
        run = self.start("sleep 1000", name="job-5")
        self.assertTrue(wait_until(lambda: [j["state"] for j in self.all()] == ["JOB_STATE_RUNNING"]))
        self.jobs("prune", "--older-than=0", "--keep=0", "--keep-size=0", "--outputs")
        self.assertIn("Pruned 0 jobs", self.err)
        self.assertTrue(os.path.isdir(self.jobs("describe", "job-5", "--format=value(jobDirectory)").strip()))
        run.kill()
        run.wait()
        self.assertTrue(wait_until(lambda: "endTime" in self.only()))

    def test_a_directory_that_the_user_has_named_stays(self):
        mine = os.path.join(self.dir, "mine")
        foreign = self.add([100], folder=mine)
        named = os.path.join(self.dir, "named")
        self.local_run("true", f"--job-dir={named}", name="job-1")
        self.jobs("prune", "--older-than=0")
        self.assertEqual(self.left(), [])
        self.assertTrue(os.path.exists(os.path.join(foreign[0], "logs", "job.log")))
        self.assertTrue(os.path.exists(os.path.join(named, "state.json")))

    def test_what_replicas_have_left_there_stays(self):
        code = os.path.join(self.dir, "code")
        os.mkdir(code)
        with open(os.path.join(code, "train.py"), "w", encoding="ascii") as file:
            file.write("import other, sys\nif sys.argv[1:]: open('model.pt', 'w').close()\n")
        open(os.path.join(code, "other.py"), "w", encoding="ascii").close()
        pool = f"--worker-pool-spec=machine-type=n1-standard-4,executor-image-uri=local,local-package-path={code},script=train.py"
        for name, *rest in ("job-0",), ("job-1", "--args=now"):
            self.jobs("local-run", f"--display-name={name}", pool, *rest)
        with open(self.write_spec("touch $AIP_MODEL_DIR/model || (mkdir -p $AIP_MODEL_DIR; touch $AIP_MODEL_DIR/model)", "job-2"),
                  encoding="utf-8") as file:
            text = file.read().replace('"jobSpec": {', '"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"}, ')
        spec = os.path.join(self.dir, "output.json")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(text)
        self.jobs("local-run", spec)
        noted = self.add([100])[0]
        with open(os.path.join(noted, "why.txt"), "w", encoding="ascii") as file:
            file.write("the learning rate")
        for _ in range(2):
            self.jobs("prune", "--older-than=0")
            self.assertIn("3 old jobs stay: replicas have left files", self.err)
            self.assertEqual(self.left(), [1, 2, 3])
        self.local_run("true", name="job-4")
        self.assertEqual(self.left(), [1, 2, 3, 4])
        self.jobs("prune", "--older-than=0", "--outputs")
        self.assertEqual(self.left(), [])
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), [])

    def test_a_directory_that_no_job_has(self):
        self.add([])
        old, new = (os.path.join(self.state, "jobs", name) for name in ("old", "new"))
        for stray in old, new:
            os.makedirs(os.path.join(stray, "logs"))
        os.utime(old, (0, time.time() - 40 * 86400))
        self.jobs("prune", "--older-than=30d")
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), ["new"])

    def test_what_cannot_be_removed_is_told_and_the_rest_goes_on(self):
        directories = self.add([100] * 3)
        locked = os.path.join(directories[1], "logs")
        os.chmod(locked, 0o500)  # as some programs leave their folders
        self.jobs("prune", "--older-than=30d")
        self.assertEqual(self.left(), [])
        directories = self.add([100] * 3)
        with open(f"{directories[1]}-other", "w", encoding="ascii") as file:
            file.write("x")
        os.rename(directories[1], f"{directories[1]}-moved")
        os.rename(f"{directories[1]}-other", directories[1])
        self.jobs("prune", "--older-than=30d", code=1)
        self.assertIn("not all of it could be removed", self.err)
        self.assertEqual(len(self.left()), 1)

    def test_kill_9_at_any_point(self):
        """Each job is in the store until its directory is gone, and goes the next time."""
        self.add([100] * 400, size=100)
        generator = random.Random(14)
        for _ in range(12):
            run = subprocess.Popen([SUMMAND, "custom-jobs", "prune", "--older-than=30d"], env=self.env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.random() * 0.05)
            run.send_signal(signal.SIGKILL)
            run.wait()
            directories = set(os.listdir(os.path.join(self.state, "jobs")))
            left = {f"job-{number}" for number in self.left()}
            self.assertEqual(directories - left, set())
            with self.database() as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                self.assertEqual(database.execute("PRAGMA foreign_key_check").fetchall(), [])
            database.close()
        self.jobs("prune", "--older-than=30d")
        self.assertEqual(self.left(), [])
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), [])


if __name__ == "__main__":
    at_once.main()
