"""Jobs with stand-ins for reduction servers, which can be lost and counted."""

import os
import signal

from job import JobTest, bash, reduction_servers, wait_until

# Stands in for a reduction server: its process id and its address are noted at each start.
SERVE = 'echo "$$ $*" >{folder}/$SUMMAND_REPLICA.$SUMMAND_RESTARTS.new; ' \
        'mv {folder}/$SUMMAND_REPLICA.$SUMMAND_RESTARTS.new {folder}/$SUMMAND_REPLICA.$SUMMAND_RESTARTS; '
READY = "echo ready >&$SUMMAND_NOTIFY_FD; exec sleep 1000"


class ServersBase(JobTest):
    def setUp(self):
        super().setUp()
        self.done = self.path("done")
        self.work = bash(f"until [ -e {self.done} ]; do sleep 0.05; done")

    def start_with(self, count, *flags, script=READY, **labels):
        servers = reduction_servers(count, SERVE.format(folder=self.dir) + script)
        run = self.start([self.work, self.work, servers], "--grace=2", *flags,
                         labels={"restart-backoff": "0", **{k.replace("_", "-"): v for k, v in labels.items()}})
        return run

    def started(self, index, restarts=0):
        """Its process and its command line."""
        path = self.path(f"workerpool2-{index}.{restarts}")
        self.wait_for_file(path)
        with open(path, encoding="utf-8") as file:
            pid, words = file.read().split(" ", 1)
        return int(pid), words

    def lose(self, index, restarts=0, signo=signal.SIGKILL):
        os.kill(self.started(index, restarts)[0], signo)

    def wait_until_said(self, run, text, times=1):
        path = os.path.join(run.job_dir, "logs/job.log")
        found = wait_until(lambda: os.path.exists(path) and self.read(run, "logs/job.log").count(text) >= times, 30)
        self.assertTrue(found, f"{text}\n{self.read(run, 'logs/job.log')}")

    def state_of(self, run, name):
        state = self.read_json(run, "state.json")
        return next(each for each in state["replicas"] if each["name"] == name)

    def wait_until_state(self, run, name, state):
        self.assertTrue(wait_until(lambda: self.state_of(run, name)["state"] == state, 30), f"{name} must be {state}")

    def end_well(self, run):
        open(self.done, "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)
