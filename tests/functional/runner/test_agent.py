"""summand-agent: one command, its whole tree, and a record of its end."""

import json
import os
import signal
import subprocess
import time

from job import AGENT, LONG, JobTest, at_once, processes_with


class AgentTest(JobTest):
    def start_agent(self, *words):
        environ = dict(os.environ, TEST_MARK=self.mark)
        self.record = self.path("record.json")
        agent = subprocess.Popen([AGENT, f"--exit-record={self.record}", *words], env=environ,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, agent)
        return agent

    def run_agent(self, *words):
        return self.finish(self.start_agent(*words))

    def read_record(self):
        with open(self.record, encoding="utf-8") as file:
            return json.load(file)

    def test_exit_code(self):
        agent = self.run_agent("--", "bash", "-c", "echo out; exit 3")
        self.assert_code(agent, 3)
        self.assertEqual(agent.out, "out\n")
        record = self.read_record()
        self.assertEqual(record["exit_code"], 3)
        self.assertLess(record["start_time"], record["end_time"])

    def test_arguments_are_not_options(self):
        agent = self.run_agent("--", "echo", "--grace=x", "--", "--help")
        self.assertEqual(agent.out, "--grace=x -- --help\n")

    def test_cleanup(self):
        for command, code in (["true"], 0), (["bash", "-c", "kill -9 $$"], 137):
            cleaned = self.path(f"cleaned-{code}")
            agent = self.run_agent(f"--cleanup=touch '{cleaned}'; setsid sleep 1000 &", "--",
                                   *command)
            self.assert_code(agent, code)
            self.assertTrue(os.path.exists(cleaned))
            self.assertEqual(processes_with(self.mark), [])

    def test_cleanup_goes_on(self):
        """Slurm signals all that runs in a step."""
        begun, cleaned = self.path("begun"), self.path("cleaned")
        agent = self.start_agent(f"--cleanup=touch '{begun}'; sleep 0.5 || exit; touch '{cleaned}'", "--", "true")
        self.wait_for_file(begun)
        time.sleep(0.1)
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGTERM)
        self.assert_code(self.finish(agent), 0)
        self.assertTrue(os.path.exists(cleaned))

    def test_signal(self):
        self.assert_code(self.run_agent("--", "bash", "-c", "kill -9 $$"), 137)
        record = self.read_record()
        self.assertEqual(record["signal"], 9)
        self.assertFalse(record["core_dumped"])

    def test_command_not_found(self):
        agent = self.run_agent("--", "no-such-command-anywhere")
        self.assert_code(agent, 127)
        self.assertIn("no-such-command-anywhere: No such file or directory", agent.err)
        self.assertIn("errno", self.read_record())

    def test_command_not_executable(self):
        path = self.path("program")
        with open(path, "w", encoding="utf-8"):
            pass
        agent = self.run_agent("--", path)
        self.assert_code(agent, 126)
        self.assertIn("Permission denied", agent.err)

    def test_no_command(self):
        agent = self.run_agent()
        self.assert_code(agent, 2)
        self.assertIn("a command must follow --", agent.err)

    def test_sigterm_reaches_the_group(self):
        ready = self.path("ready")
        script = f"trap 'exit 7' TERM; touch {ready}; sleep 100 & wait"
        agent = self.start_agent("--", "bash", "-c", script)
        self.wait_for_file(ready)
        agent.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(agent), 7)

    def test_grace_ends_in_sigkill(self):
        ready = self.path("ready")
        script = f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"
        agent = self.start_agent("--grace=1", "--", "bash", "-c", script)
        self.wait_for_file(ready)
        agent.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(agent), 137)
        self.assertEqual(self.read_record()["signal"], 9)

    def test_sighup_kills_at_once(self):
        ready = self.path("ready")
        agent = self.start_agent("--grace=1000", "--", "bash", "-c",
                                 f"trap '' TERM HUP; touch {ready}; sleep 1000")
        self.wait_for_file(ready)
        agent.send_signal(signal.SIGHUP)
        self.assert_code(self.finish(agent), 137)

    def test_daemons_end_with_the_command(self):
        ready = self.path("ready")
        script = f"(setsid bash -c 'touch {ready}; sleep 1000; true' &) ; " \
                 f"while [ ! -e {ready} ]; do sleep 0.01; done"
        agent = self.run_agent("--", "bash", "-c", script)
        self.assert_code(agent, 0)
        self.assertEqual(processes_with(self.mark), [])

    def test_the_tree_ends_with_the_parent(self):
        ready = self.path("ready")
        command = f'{AGENT} -- bash -c "setsid sleep 1000 & touch {ready}; sleep 1000" & wait'
        parent = subprocess.Popen(["bash", "-c", command],
                                  env=dict(os.environ, TEST_MARK=self.mark))
        self.addCleanup(parent.wait, LONG)
        self.wait_for_file(ready)
        parent.kill()
        time.sleep(0.1)  # tearDown waits for the rest


if __name__ == "__main__":
    at_once.main()
