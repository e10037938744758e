#!/usr/bin/env python3
"""summand-mpi by itself: who is let in by a node, and what it does with those who are not."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "runner"))
import job  # noqa: E402

MPI = os.path.join(job.BIN, "summand-mpi")
MAGIC = b"SMDMPI1\n"


class Bindings(unittest.TestCase):
    """What a launcher is called with."""

    SHOW = '#!/bin/sh\necho "$*: $OMPI_MCA_hwloc_base_binding_policy by $OMPI_MCA_rmaps_base_mapping_policy"\n'

    def launch(self, launcher, *flags, nodes="workerpool0-0=10.0.0.1:1", **variables):
        with tempfile.TemporaryDirectory(prefix="summand-test-") as folder:
            for name in "orterun", "mpiexec.hydra":
                with open(os.path.join(folder, name), "w", encoding="ascii", opener=lambda path, how: os.open(path, how, 0o755)) as file:
                    file.write(self.SHOW)
            os.mkdir(os.path.join(folder, "mpi"))
            done = subprocess.run([MPI, f"--launcher={launcher}", "--processes=2", *flags, "launch", "--", "program", "word"],
                                  env={"PATH": folder + ":/usr/bin:/bin", "SUMMAND_MPI_NODES": nodes, "SUMMAND_JOB_ID": "1",
                                       "SUMMAND_REPLICA": "workerpool0-0", "SUMMAND_MPI_FOLDER": os.path.join(folder, "mpi"), **variables},
                                  capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), done.stderr

    def test_open_mpi(self):
        words = "-n 2 -wdir / summand-mpi rank -- program word: "
        self.assertEqual(self.launch("openmpi"), (words + "none by slot", ""))
        self.assertEqual(self.launch("openmpi", "--binding=core"), (words + "core by core", ""))
        self.assertEqual(self.launch("openmpi", "--binding=socket"), (words + "socket by socket", ""))
        self.assertEqual(self.launch("openmpi", "--binding=core", OMPI_MCA_hwloc_base_binding_policy="hwthread",
                                     OMPI_MCA_rmaps_base_mapping_policy="node"), (words + "hwthread by node", ""))

    def test_mpich(self):
        words = "-n 2 -wdir / summand-mpi rank -- program word: "
        self.assertEqual(self.launch("mpich")[0], words + "none by slot")
        self.assertEqual(self.launch("mpich", "--binding=numa")[0], "-bind-to numa " + words + "numa by numa")

    def test_what_is_none(self):
        done = subprocess.run([MPI, "--binding=gpu", "launch", "--", "true"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--binding: must be none, core, numa or socket", done.stderr)


class Programs(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.node = self.start("workerpool1-0", "right", f"--listen=127.0.0.1:{self.port}", "node")
        self.assertTrue(job.wait_until(self.is_up, 20))

    def is_up(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def variables(self, replica, token):
        path = os.path.join(self.dir, token)
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(token + "\n")
        folder = tempfile.mkdtemp(prefix="summand-test-")  # as an agent makes and removes it: these programs are killed
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return dict(os.environ, SUMMAND_REPLICA=replica, SUMMAND_JOB_ID="0123456789", SUMMAND_MPI_TOKEN_FILE=path, SUMMAND_MPI_FOLDER=folder,
                    SUMMAND_MPI_NODES=f"workerpool0-0=127.0.0.1:1,workerpool1-0=127.0.0.1:{self.port}")

    def start(self, replica, token, *words, program=MPI):
        run = subprocess.Popen([program, *words], env=self.variables(replica, token), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, run)
        return run

    @staticmethod
    def end(run):
        run.kill()
        run.communicate()

    def starter(self):
        path = os.path.join(self.dir, "summand-mpi-start")
        os.symlink(os.path.realpath(MPI), path)
        return path

    def end_node(self):
        self.node.send_signal(signal.SIGTERM)
        _, said = self.node.communicate(timeout=30)
        self.assertEqual(self.node.returncode, 143, said)
        return said

    def test_a_starter(self):
        """Input, output, errors and the exit code go through."""
        run = self.start("workerpool0-0", "right", "-x", "workerpool1-0", 'cat; echo "$SUMMAND_REPLICA" >&2;', "exit 7",
                         program=self.starter())
        text = "line\n" * 100000
        out, err = run.communicate(text, timeout=60)
        self.assertEqual((run.returncode, out == text, err), (7, True, "workerpool1-0\n"))
        self.end_node()

    def test_a_starter_that_is_gone(self):
        """What it started is gone too."""
        mark = os.path.join(self.dir, "mark")
        run = self.start("workerpool0-0", "right", "workerpool1-0", f"setsid sleep 100 & echo $! > {mark}; wait",
                         program=self.starter())
        self.assertTrue(job.wait_until(lambda: os.path.exists(mark) and os.path.getsize(mark), 20))
        with open(mark, encoding="ascii") as file:
            pid = int(file.read())
        run.kill()
        self.assertTrue(job.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20))
        self.end_node()

    def test_another_token(self):
        for words, program in ((("--wait=5", "launch", "--", "true"), MPI),
                               (("workerpool1-0", f"touch {self.dir}/ran"), self.starter())):
            run = self.start("workerpool0-0", "wrong", *words, program=program)
            _, err = run.communicate(timeout=30)
            self.assertIn(run.returncode, (1, 255))
            self.assertIn("another token", err)
        self.assertFalse(os.path.exists(f"{self.dir}/ran"))
        self.assertIn("a connection is refused: the other end has another token", self.end_node())

    def test_strangers(self):
        """They are told nothing, and those who have the token are served after them."""
        for said in b"", b"GET / HTTP/1.0\r\n\r\n", MAGIC + b"S" + bytes(64), MAGIC + b"?" + bytes(64), bytes(1 << 16):
            with socket.create_connection(("127.0.0.1", self.port)) as stranger:
                stranger.settimeout(20)
                first = stranger.recv(40, socket.MSG_WAITALL)
                self.assertEqual((len(first), first[:8]), (40, MAGIC))
                try:
                    stranger.sendall(said)
                    stranger.shutdown(socket.SHUT_WR)
                    self.assertEqual(stranger.recv(1), b"")
                except TimeoutError:
                    raise
                except OSError:
                    pass  # it has read enough, and has gone
        run = self.start("workerpool0-0", "right", "workerpool1-0", "exit 3", program=self.starter())
        self.assertEqual(run.wait(timeout=30), 3)
        self.end_node()

    def test_its_address_and_no_other(self):
        with socket.socket() as probe:
            self.assertNotEqual(probe.connect_ex(("127.0.0.2", self.port)), 0)
        self.end_node()

    def test_a_chief_that_is_lost(self):
        launch = self.start("workerpool0-0", "right", "--is-launcher", "launch", "--", "sleep", "100")
        self.assertTrue(job.wait_until(lambda: job.children_of(launch.pid), 20))
        launch.kill()
        _, said = self.node.communicate(timeout=30)
        self.assertEqual(self.node.returncode, 1)
        self.assertIn("the launch on the chief is lost", said)

    def test_a_node_that_is_lost(self):
        launch = self.start("workerpool0-0", "right", "--is-launcher", "launch", "--", "sleep", "100")
        self.assertTrue(job.wait_until(lambda: job.children_of(launch.pid), 20))
        self.node.kill()
        _, said = launch.communicate(timeout=60)
        self.assertEqual(launch.returncode, 1)
        self.assertIn("workerpool1-0 is lost", said)

    def test_bad_command_lines(self):
        for words, expected in ((("node",), "must have --listen"), (("launch",), "a command must follow"),
                                (("walk",), "must be launch, node or rank"), ((), "must be told one of"),
                                (("--launcher=lam", "launch"), "must be any, openmpi or mpich"),
                                (("--processes=0", "launch"), "must be 1 to")):
            run = self.start("workerpool0-0", "right", *words)
            _, err = run.communicate(timeout=30)
            self.assertEqual(run.returncode, 2, words)
            self.assertIn(expected, err)


if __name__ == "__main__":
    job.at_once.main()
