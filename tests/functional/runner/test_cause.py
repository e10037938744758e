"""What a failure is said to come from."""

import json
import os
import shutil
import subprocess
import uuid

from job import JobTest, at_once, bash, pool, wait_until

MEMORY_GROUPS = "/sys/fs/cgroup/memory"  # version 1: where limits can be set without more ado
PYTHON = "/usr/bin/python3"              # Debian's, which has Debian's PyTorch

RECORDED = """
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise RuntimeError("the loss is not a number")

main()
"""


def enter(group):
    with open(group + "/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


def remove_folder(group):
    """Whether it is still there: its last processes may be about to end."""
    try:
        os.rmdir(group)
    except OSError:
        return True
    return False


class CauseTest(JobTest):
    def test_an_error_file(self):
        script = "echo '{}' > $TORCHELASTIC_ERROR_FILE; exit 1"
        for document in ({"message": "no data"}, {"message": {"message": "no data"}}):
            run = self.run_job([bash(script.format(json.dumps(document)))])
            self.assert_code(run, 1)
            self.assertIn("\n  Its error: no data\n", run.err)
        for text in '{"message": 3}', "{", '["message"]', "":
            run = self.run_job([bash(script.format(text))])
            self.assert_code(run, 1)
            self.assertNotIn("Its error", run.err)

    def test_what_is_no_error_file_is_not_read(self):
        good = self.path("good.json")
        with open(good, "w", encoding="utf-8") as file:
            json.dump({"message": "not mine"}, file)
        for make in "mkfifo {}", "mkdir {}", f"ln -s {good} {{}}", "ln -s /dev/zero {}", \
                "truncate -s 1T {}", "mkfifo p; ln -s $PWD/p {}":
            with self.subTest(make=make):
                run = self.run_job([bash(f"cd $(mktemp -d -p {self.dir}); "
                                         + make.format("$TORCHELASTIC_ERROR_FILE") + "; exit 3")])
                self.assert_code(run, 1)
                self.assertNotIn("Its error", run.err)
                self.assertIn("exited with a non-zero status of 3", run.err)

    def check_records_replaced(self, make):
        """Replicas put something in the place of the job's files: it goes on to its end, and keeps its own."""
        for name in ("exits/workerpool0-0.json", "exits/workerpool0-0.json.tmp", "state.json",
                     "state.json.tmp", "env/workerpool0-0.env.tmp", "logs/workerpool0-0.log",
                     "summary.json.tmp", "errors/workerpool0-0.json"):
            with self.subTest(name=name):
                path = "$TEST_JOB_DIR/" + name
                script = f"rm -f {path}; {make.format(path)}; [ $SUMMAND_RESTARTS = 1 ] || exit 3"
                run = self.run_job([bash(script)], labels={"restart-policy": "on-failure",
                                                           "restart-backoff": "0"})
                self.assert_code(run, 0)

    def test_records_replaced_by_pipes(self):
        self.check_records_replaced("mkfifo {}")

    def test_records_replaced_by_folders(self):
        self.check_records_replaced("mkdir {}")

    def test_records_replaced_by_links(self):
        self.check_records_replaced("ln -s /dev/full {}")

    def test_pytorchs_error_file(self):
        if subprocess.run([PYTHON, "-c", "import torch"], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("PyTorch is not installed")
        run = self.run_job([pool([PYTHON, "-c", RECORDED])])
        self.assert_code(run, 1)
        self.assertIn("  Its error: RuntimeError: the loss is not a number\n", run.err)

    def test_a_core_dump(self):
        run = self.run_job([bash(f"cd {self.dir}; ulimit -c unlimited; kill -SEGV $BASHPID")])
        self.assert_code(run, 1)
        dumped = self.read_json(run, "exits/workerpool0-0.json")["core_dumped"]
        self.assertIn("was killed by signal 11 (Segmentation fault)"
                      + (" and dumped core." if dumped else "."), run.err)

    def own_memory_group(self):
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            return MEMORY_GROUPS + next(line.split(":", 2)[2].rstrip("\n") for line in file if ":memory:" in line)

    def test_no_memory(self):
        """The whole job is in a group of its own, which its largest process fills."""
        group = os.path.join(MEMORY_GROUPS, "summand-test-" + uuid.uuid4().hex)
        try:
            before = self.own_memory_group()
            os.mkdir(group)
            self.addCleanup(wait_until, lambda: not remove_folder(group))
            with open(group + "/memory.limit_in_bytes", "w", encoding="utf-8") as limit:
                limit.write("512M")
            enter(group)
        except (OSError, StopIteration) as error:
            self.skipTest(f"{MEMORY_GROUPS}: a memory limit cannot be set: {error}")
        try:
            run = self.start([bash(f"exec {shutil.which('python3')} -c 'bytearray(1 << 30)'")])
        finally:
            enter(before)
        self.finish(run)
        self.assert_code(run, 1)
        self.assertIn("was killed by signal 9 (Killed), by the kernel for lack of memory.",
                      run.err)

    def test_somebody_elses_lack_of_memory(self):
        """Another process of the machine is killed for that while a replica is killed by somebody."""
        group = os.path.join(MEMORY_GROUPS, "summand-test-" + uuid.uuid4().hex)
        victim = f"echo $BASHPID > {group}/cgroup.procs; exec {shutil.which('python3')} -c 'bytearray(1 << 28)'"
        try:
            os.mkdir(group)
            self.addCleanup(wait_until, lambda: not remove_folder(group))
            with open(group + "/memory.limit_in_bytes", "w", encoding="utf-8") as limit:
                limit.write("32M")
        except OSError as error:
            self.skipTest(f"{error.filename}: a memory limit cannot be set: {error.strerror}")
        run = self.run_job([bash(f"({victim}); echo $? > $TEST_JOB_DIR/victim; kill -KILL $BASHPID")])
        self.assert_code(run, 1)
        with open(os.path.join(run.job_dir, "victim"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "137\n")
        self.assertIn("was killed by signal 9 (Killed).", run.err)

    def test_the_first_failure_is_the_cause(self):
        marker = self.path("first")
        worker = bash(f"""
            if [ $SUMMAND_REPLICA = workerpool1-2 ]; then touch {marker}; exit 4; fi
            while [ ! -e {marker} ]; do sleep 0.02; done; sleep 0.05; exit 5""", 4)
        run = self.run_job([pool(["sleep", "1000"]), worker])
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-2 exited with a non-zero status of 4.", run.err)


if __name__ == "__main__":
    at_once.main()
