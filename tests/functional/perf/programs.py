"""Starts the programs of the build for tests, and leaves none of them behind."""

import os
import signal
import subprocess
import tempfile
import unittest

BIN = os.path.join(os.environ["SUMMAND_BUILD"], "bin")
PATIENCE_S = 300  # only what hangs takes longer, also where other work has the processors
LAUNCHERS = ("PMIX_NAMESPACE", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "MASTER_ADDR", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def environment(self, **variables):
        """The test's own, without what a job around it may have set."""
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("SUMMAND_") and name != "CLUSTER_SPEC" and name not in LAUNCHERS}
        return {**inherited, **variables}

    def run_program(self, program, *arguments, **variables):
        return subprocess.run([os.path.join(BIN, program), *arguments], env=self.environment(**variables),
                              capture_output=True, text=True, timeout=PATIENCE_S)

    def start_program(self, program, *arguments, **variables):
        process = subprocess.Popen([os.path.join(BIN, program), *arguments], env=self.environment(**variables),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def start_server(self, *options, **variables):
        """A server that is ready, and the address from its ready line."""
        server = self.start_program("summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M", *options,
                                    **variables)
        line = server.stdout.readline().split()
        self.assertEqual(line[0], "ready", server)
        return server, line[1]

    def start_rank(self, rank, nranks, servers, *options, **variables):
        return self.start_program("summand-perf", "allreduce", "--group=test", f"--nranks={nranks}", f"--rank={rank}",
                                  "--servers=" + ",".join(servers), *options,
                                  SUMMAND_REPLICA=f"rank-{rank}", **variables)

    def wait_until_it_says(self, process, text):
        """Reads its log up to a line with that, and returns what it has read; finish() gives what comes after."""
        lines = []
        while not lines or text not in lines[-1]:
            lines.append(process.stderr.readline())
            self.assertNotEqual(lines[-1], "", f"must say: {text}")
        return "".join(lines)

    def finish(self, process):
        """What the program has said, once it has ended."""
        out, err = process.communicate(timeout=PATIENCE_S)
        return out, err

    def assert_ended(self, process, code, *texts):
        out, err = self.finish(process)
        self.assertEqual(process.returncode, code, out + err)
        for text in texts:
            self.assertIn(text, out + err)
        return out, err

    def assert_usage_error(self, done, text):
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        self.assertIn(text, done.stderr)

    def terminate(self, process):
        process.send_signal(signal.SIGTERM)
