"""Running jobs that allow it make room for those of a higher priority, and what is killed meanwhile loses nothing."""

import os
import random
import signal
import sqlite3
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import otlp  # noqa: E402
from served import ENDED, JOBS, LONG, ServiceTest, processes_of, wait_until

SEED = int(os.environ.get("SUMMAND_SEED", "20"))
MACHINE = "n1-standard-8"  # all that there is
LOW = "echo start >>{0}.starts; until [ -e {0}.go ]; do sleep 0.1; done; echo done >>{0}.done"


class PreemptionTest(ServiceTest):
    FLAGS = ("--cpus=8", "--memory=512G", "--gpus=0", "--grace=5")

    def low(self, preemption="requeue", name="low", machine=MACHINE):
        """A job that ends once NAME.go is there."""
        labels = {"summand-preemption": preemption} if preemption else {}
        return self.create(LOW.format(os.path.join(self.dir, name)), name=name, labels=labels, machine=machine)

    def high(self, script="true", machine=MACHINE, priority=9, name="high"):
        return self.create(script, name=name, labels={"summand-priority": str(priority)}, machine=machine)

    def lines(self, name):
        try:
            with open(os.path.join(self.dir, name), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def go(self, name="low"):
        with open(os.path.join(self.dir, name + ".go"), "w", encoding="ascii"):
            pass

    def await_start(self, number, name="low", count=1):
        self.await_state(number, "JOB_STATE_RUNNING")
        wait_until(lambda: len(self.lines(f"{name}.starts")) == count)
        self.assertEqual(self.lines(f"{name}.starts"), ["start"] * count, f"{name}: {self.service.said()}")

    def store(self, statement, *values):
        with sqlite3.connect(os.path.join(self.state, "jobs.db"), timeout=60) as store:
            row = store.execute(statement, values).fetchone()
        store.close()
        return row

    def directory(self, number):
        return self.store("SELECT directory FROM jobs WHERE id = ?", int(number))[0]

    def test_it_waits_and_runs_again(self):
        traces = os.path.join(self.dir, "traces")
        self.serve("--traces=" + traces, *self.FLAGS)
        low = self.low()
        self.await_start(low)
        directory = self.directory(low)
        with open(os.path.join(directory, "model"), "w", encoding="ascii") as file:
            file.write("kept")
        high = self.high(f"until [ -e {self.dir}/high.go ]; do sleep 0.1; done")
        self.await_state(high, "JOB_STATE_RUNNING")
        described = self.ask("GET", f"{JOBS}/{low}")
        self.assertEqual(described["state"], "JOB_STATE_QUEUED")
        self.assertFalse({"error", "startTime", "endTime"} & set(described), described)
        self.assertIn(f"{low}: makes room for {high}, priority 9", self.service.said())
        self.go("high")
        self.await_start(low, count=2)
        self.go()
        self.await_state(low, "JOB_STATE_SUCCEEDED")
        self.assertEqual(self.lines("low.done"), ["done"])
        self.assertEqual(self.directory(low), directory)  # with what is in it
        self.assertTrue(os.path.exists(os.path.join(directory, "model")))
        self.assertIsNone(self.store("SELECT spec FROM queue WHERE id = ?", int(low))[0])
        self.assertEqual(self.state_of(high), "JOB_STATE_SUCCEEDED")
        path = os.path.join(traces, low + ".json")      # has both runs
        self.assertTrue(wait_until(lambda: len(self.lines(os.path.relpath(path, self.dir))) > 0 and open(path).read().count("\n") == 2))
        root, spans = otlp.read(self, path, lines=2)
        self.assertEqual(otlp.attributes(root)["summand.state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual([span["name"] for span in spans if span["name"] in ("queued", "running", "preempted")],
                         ["queued", "running", "preempted", "queued", "running"])

    def test_it_ends_with_a_reason(self):
        self.serve()
        low = self.low("cancel")
        self.await_start(low)
        high = self.high()
        self.await_state(high, "JOB_STATE_SUCCEEDED")
        error = self.await_state(low, "JOB_STATE_CANCELLED")["error"]
        self.assertEqual(error, {"code": 1, "message": f"The job was preempted: job {high}, of a higher priority, needed its room."})

    def test_others_keep_their_room(self):
        """Who does not allow it, who has the same priority, and who would go in vain."""
        self.serve()
        small = self.low("requeue", "small", "n1-standard-2")
        firm = self.low(None, "firm", "n1-standard-4")
        self.await_start(small, "small")
        self.await_start(firm, "firm")
        large, equal = self.high(), self.high(machine="n1-standard-4", priority=0, name="equal")
        time.sleep(1.5)
        self.assertEqual([self.state_of(one) for one in (small, firm, large, equal)],
                         ["JOB_STATE_RUNNING"] * 2 + ["JOB_STATE_QUEUED"] * 2)
        self.go("firm")
        self.await_state(large, "JOB_STATE_SUCCEEDED")  # now the small one makes room
        self.await_start(small, "small", 2)
        self.go("small")
        for one in small, equal:
            self.await_state(one, "JOB_STATE_SUCCEEDED")

    def test_a_user_who_cancels_has_the_last_word(self):
        self.serve()
        low = self.low()
        self.await_start(low)
        runners = wait_until(lambda: processes_of(low))
        for pid in runners:
            os.kill(pid, signal.SIGSTOP)
        self.high()
        self.assertTrue(wait_until(lambda: "makes room" in self.service.said()))
        self.ask("POST", f"{JOBS}/{low}:cancel", {})
        for pid in runners:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.await_state(low, "JOB_STATE_CANCELLED")["error"]["message"], "The job was cancelled.")

    def test_the_service_is_killed_before_it_tells_the_runner(self):
        self.serve()
        low = self.low()
        self.await_start(low)
        self.service.end(signal.SIGKILL)
        self.store("UPDATE queue SET preempted_by = 7 WHERE id = ?", int(low))
        self.serve()
        self.await_start(low, count=2)  # nobody is there who needs its room
        self.go()
        self.await_state(low, "JOB_STATE_SUCCEEDED")

    def test_the_runner_is_killed_when_it_is_to_make_room(self):
        self.serve()
        low = self.low()
        self.await_start(low)
        self.service.end(signal.SIGKILL)
        self.store("UPDATE queue SET preempted_by = 7 WHERE id = ?", int(low))
        for pid in wait_until(lambda: processes_of(low)):
            os.kill(pid, signal.SIGKILL)
        self.serve()
        self.await_start(low, count=2)
        self.go()
        self.await_state(low, "JOB_STATE_SUCCEEDED")

    def test_one_of_two_runners_is_killed_before_it_is_told(self):
        self.serve()
        names = {self.low(name=name, machine="n1-standard-2"): name for name in ("one", "two")}
        dead, alive = sorted(names, key=int)
        for number, name in names.items():
            self.await_start(number, name)  # a runner that is killed sooner may have no start to show
        self.service.end(signal.SIGKILL)
        self.store("UPDATE queue SET preempted_by = 7")
        for pid in wait_until(lambda: processes_of(dead)):
            os.kill(pid, signal.SIGKILL)
        self.serve()
        for number, name in names.items():
            self.await_start(number, name, count=2)
        self.go("one")
        self.go("two")
        for number in dead, alive:
            self.await_state(number, "JOB_STATE_SUCCEEDED")

    def test_a_loop_of_kills_while_jobs_make_room(self):
        chance = random.Random(SEED)
        self.serve()
        names = [f"low-{i}" for i in range(3)]
        jobs = [self.low("requeue", name, "n1-standard-2") for name in names]
        for i in range(5):
            time.sleep(chance.uniform(0.1, 0.5))
            jobs.append(self.high(f"echo done >>{self.dir}/high-{i}.done; sleep 0.2", "n1-standard-4", 1 + i, f"high-{i}"))
            time.sleep(chance.uniform(0.02, 0.4))
            self.service.end(signal.SIGKILL)
            self.serve()
        for name in names:
            self.go(name)
        self.assertTrue(wait_until(lambda: all(self.state_of(one) in ENDED for one in jobs), 2 * LONG))
        self.assertEqual({self.state_of(one) for one in jobs}, {"JOB_STATE_SUCCEEDED"})
        for name in names + [f"high-{i}" for i in range(5)]:
            self.assertEqual(self.lines(f"{name}.done"), ["done"], name)
        self.assertEqual(len(self.ask("GET", JOBS)["customJobs"]), len(jobs))


if __name__ == "__main__":
    unittest.main()
