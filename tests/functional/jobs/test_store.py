"""The job store says what has become of every job, however its runner has ended."""

import os
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from stored import SUMMAND, StoreTest, at_once, wait_until

NOBODY = 65534


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class JobStoreTest(StoreTest):
    def test_jobs_that_ran_here_are_there_with_their_outcome(self):
        self.local_run("exit 0", name="good")
        self.local_run("echo why >&2; exit 3", name="bad", code=1)
        script = os.path.join(self.dir, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("print('trained')\n")
        self.summand("torch-run", "--no-use-gpu", script)
        states = {job["displayName"]: job["state"] for job in self.all()}
        self.assertEqual(states, {"good": "JOB_STATE_SUCCEEDED", "bad": "JOB_STATE_FAILED", "torch-run": "JOB_STATE_SUCCEEDED"})
        bad = self.all("--filter=displayName=bad")[0]
        self.assertIn("non-zero status of 3", bad["error"]["message"])
        self.assertLess(bad["createTime"], bad["endTime"])

    def test_a_state_is_in_the_store_while_it_lasts(self):
        go = os.path.join(self.dir, "go")
        run = self.start(f"until [ -e {go} ]; do sleep 0.05; done")
        self.assertTrue(wait_until(lambda: [j["state"] for j in self.all()] == ["JOB_STATE_RUNNING"]))
        self.assertNotIn("endTime", self.only())
        open(go, "w", encoding="ascii").close()
        run.wait()
        self.assertEqual(self.only()["state"], "JOB_STATE_SUCCEEDED")

    def start_running(self):
        run = self.start("sleep 1000")
        self.assertTrue(wait_until(lambda: [j["state"] for j in self.all()] == ["JOB_STATE_RUNNING"]))
        return run, children_of(run.pid)[0]

    def test_a_killed_runner_leaves_a_failed_job(self):
        run, runner = self.start_running()
        os.kill(runner, signal.SIGKILL)
        run.wait()
        job = self.only()
        self.assertEqual(job["state"], "JOB_STATE_FAILED")
        self.assertIn("killed by signal 9", job["error"]["message"])

    def end_of(self, run):
        run.kill()
        run.wait()
        self.assertTrue(wait_until(lambda: "endTime" in self.only()))
        return self.only()

    def test_a_killed_guard_leaves_a_failed_job(self):
        run, _ = self.start_running()
        job = self.end_of(run)
        self.assertEqual(job["state"], "JOB_STATE_FAILED")
        self.assertEqual(job["error"], {"code": 2, "message": f"The job's guard, process {run.pid}, was killed.\n"})

    def test_the_guard_of_a_job_that_was_to_end_is_killed(self):
        for end in lambda run: run.send_signal(signal.SIGTERM), lambda run: self.jobs("cancel", "stored"):
            with self.subTest(end=end):
                ready = os.path.join(self.dir, "ready")
                run = self.start(f"trap '' TERM; touch {ready}; while sleep 0.1; do :; done")
                self.assertTrue(wait_until(lambda: os.path.exists(ready)))
                end(run)
                self.assertTrue(wait_until(lambda: self.only()["state"] == "JOB_STATE_CANCELLING"))
                self.assertEqual(self.end_of(run)["state"], "JOB_STATE_CANCELLED")
                self.jobs("delete", "stored")
                os.remove(ready)

    def test_a_job_whose_guard_and_runner_are_killed_has_failed(self):
        run, runner = self.start_running()
        os.kill(run.pid, signal.SIGSTOP)  # so that it cannot tell of the runner
        os.kill(runner, signal.SIGKILL)
        run.kill()
        run.wait()
        self.assertTrue(wait_until(lambda: "endTime" in self.only()))
        job = self.only()
        self.assertEqual(job["state"], "JOB_STATE_FAILED")
        self.assertIn("ended without a word", job["error"]["message"])

    def test_what_the_store_could_not_be_told_is_taken_from_the_jobs_directory(self):
        self.local_run("exit 0")
        with self.database() as database:
            database.execute("UPDATE jobs SET state = 'JOB_STATE_RUNNING', end_time = NULL")
        database.close()
        self.assertEqual(self.only()["state"], "JOB_STATE_SUCCEEDED")

    def test_a_directory_is_of_the_last_job_in_it(self):
        folder = os.path.join(self.dir, "job")
        for name in "first", "second":
            self.local_run("exit 0", f"--job-dir={folder}", name=name)
        directories = {}
        for name in "first", "second":
            directories[name] = self.jobs("describe", name, "--format=value(jobDirectory)").strip()
        self.assertEqual(directories, {"first": "", "second": folder})

    def test_secrets_are_masked_unless_they_are_to_be_shown(self):
        path = self.write_spec("true")
        for flags, there in (([], False), (["--show-secrets"], True)):
            self.jobs("local-run", path, "--env=API_TOKEN=tops3cret", *flags)
            newest = self.jobs("list", "--limit=1", "--format=json")
            self.assertEqual("tops3cret" in newest, there, newest)

    def test_who_may_read_it(self):
        old = os.umask(0)
        try:
            self.local_run("true")
        finally:
            os.umask(old)
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o700)
        for name in os.listdir(self.state):
            self.assertEqual(os.stat(os.path.join(self.state, name)).st_mode & 0o077, 0, name)

    def test_a_store_that_cannot_be_written_does_not_keep_a_job_from_running(self):
        os.makedirs(self.state, mode=0o700)
        with open(os.path.join(self.state, "jobs.db"), "w", encoding="ascii") as file:
            file.write("this is no database, but long enough to be looked at as one" * 20)
        ran = os.path.join(self.dir, "ran")
        self.local_run(f"touch {ran}")
        self.assertTrue(os.path.exists(ran))
        self.assertIn("will not show this job", self.err)
        self.assertIn("not a database", self.err)
        self.jobs("list", code=1)
        self.assertIn("move it away", self.err)

    def on_a_disk(self, script, full):
        """Runs a script where the state directory is on a disk that is full, or read-only; its output."""
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        mount = f"""
            mount -t tmpfs -o size=1m,mode=700 tmpfs {disk} || exit 77
            export SUMMAND_STATE_DIR={disk}
            jobs() {{ {os.path.abspath(SUMMAND)} custom-jobs "$@"; }}
            jobs local-run {self.write_spec('echo said')} >/dev/null || exit 1"""
        spoil = f"dd if=/dev/zero of={disk}/fill bs=1k 2>/dev/null" if full else f"mount -o remount,ro {disk} || exit 77"
        run = subprocess.run(["unshare", "--mount", "--propagation=private", "bash", "-c", f"{mount}\n{spoil}\n{script}"],
                             env=self.env, capture_output=True, text=True, check=False)
        self.err = run.stderr
        if run.returncode == 77 or "unshare failed" in run.stderr:
            self.skipTest("needs to mount")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def spoiled_disk(self, full, reason):
        other = os.path.join(self.dir, "elsewhere")
        out = self.on_a_disk(f"""
            jobs list --format='value(displayName,state)' && jobs describe stored --format='value(state)'
            jobs stream-logs stored --task-name=workerpool0-0 && jobs wait stored
            jobs local-run {self.write_spec('echo ran', 'later')} --job-dir={other} || exit 1
            jobs create {self.write_spec('echo ran', 'later')} --job-dir={other} && exit 1
            jobs local-run {self.write_spec('echo ran', 'later')} && exit 1
            for verb in cancel delete; do jobs $verb stored && exit 1; done
            true""", full)
        self.assertTrue(out.startswith("stored\tJOB_STATE_SUCCEEDED\nJOB_STATE_SUCCEEDED\n"), out)
        self.assertIn("\tsaid\n", out)
        self.assertIn("\nlater: succeeded", self.err)
        self.assertIn("warning: `list` will not show this job", self.err)
        self.assertIn(reason, self.err)
        self.assertIn("jobs are shown as they were", self.err)

    @unittest.skipIf(os.geteuid() != 0, "mounts")
    def test_on_a_read_only_disk_jobs_are_read_and_run_elsewhere(self):
        self.spoiled_disk(False, "Read-only file system")

    @unittest.skipIf(os.geteuid() != 0, "mounts")
    def test_on_a_full_disk_jobs_are_read_and_run_elsewhere(self):
        self.spoiled_disk(True, "No space left on device")

    @unittest.skipIf(os.geteuid() != 0, "mounts")
    def test_a_disk_that_was_full_is_written_again(self):
        out = self.on_a_disk(f"""
            jobs list >/dev/null; rm $SUMMAND_STATE_DIR/fill
            jobs create {self.write_spec('true', 'later')} && jobs wait later
            jobs list --format='value(displayName,state)'""", True)
        self.assertEqual(out, "later\tJOB_STATE_SUCCEEDED\nstored\tJOB_STATE_SUCCEEDED\n")

    @unittest.skipIf(os.geteuid() != 0, "mounts")
    def test_on_a_read_only_disk_an_older_schema_is_refused(self):
        schema = os.path.join(os.path.dirname(os.path.realpath(__file__)), "schema-1.sql")
        older = os.path.join(self.dir, "older.db")
        with open(schema, encoding="utf-8") as file, sqlite3.connect(older) as database:
            database.executescript(file.read())
        database.close()
        self.on_a_disk(f"""mount -o remount,rw $SUMMAND_STATE_DIR; cp {older} $SUMMAND_STATE_DIR/jobs.db
            mount -o remount,ro $SUMMAND_STATE_DIR; jobs list && exit 1; true""", False)
        self.assertIn("attempt to write a readonly database", self.err)
        self.assertNotIn("no such column", self.err)

    def test_a_newer_schema_is_refused_and_left_as_it_is(self):
        self.local_run("true")
        with self.database() as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
        self.jobs("list", code=1)
        self.assertIn("newer summand", self.err)
        self.assertIn("SUMMAND_STATE_DIR", self.err)
        self.local_run("true")
        self.assertIn("newer summand", self.err)
        with self.database() as database:
            self.assertEqual(database.execute("SELECT count(*) FROM jobs").fetchone()[0], 1)
        database.close()

    def test_where_it_is(self):
        spec = self.write_spec("true")
        home = os.path.join(self.dir, "home")
        os.mkdir(home)
        env = {k: v for k, v in self.env.items() if k not in ("SUMMAND_STATE_DIR", "XDG_STATE_HOME")}
        env["HOME"] = home
        self.jobs("local-run", spec, env=env)
        self.assertTrue(os.path.exists(os.path.join(home, ".local/state/summand/jobs.db")))
        env["XDG_STATE_HOME"] = os.path.join(self.dir, "xdg")
        self.jobs("local-run", spec, env=env)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "xdg/summand/jobs.db")))
        del env["HOME"], env["XDG_STATE_HOME"]
        self.jobs("list", env=env, code=1)
        self.assertIn("SUMMAND_STATE_DIR or HOME", self.err)

    @unittest.skipIf(os.geteuid() != 0, "becomes another user")
    def test_two_users_never_share_one(self):
        theirs = os.path.join(self.dir, "theirs")
        os.mkdir(theirs, 0o700)
        os.chown(theirs, NOBODY, NOBODY)
        os.chmod(self.dir, 0o711)
        self.jobs("list", env=dict(self.env, SUMMAND_STATE_DIR=theirs), code=1)
        self.assertIn("must belong to user 0", self.err)
        self.assertEqual(os.listdir(theirs), [])
        self.local_run("true")
        run = subprocess.run([SUMMAND, "custom-jobs", "list"], env=self.env, capture_output=True, text=True, user=NOBODY, check=False)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertNotIn("stored", run.stdout)

    def test_one_that_others_may_write_is_refused(self):
        os.mkdir(self.state)
        os.chmod(self.state, 0o770)
        self.jobs("list", code=1)
        self.assertIn("writable by its owner alone", self.err)
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o770)


if __name__ == "__main__":
    at_once.main()
