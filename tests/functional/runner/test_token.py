"""A job's token: made for it, given to its reduction servers and their workers, and seen nowhere else."""

import os
import re
import subprocess
import unittest
from unittest import mock

from job import JobTest, OVER_HOSTS, SUMMAND, bash, at_once, reduction_servers

# What a worker knows of it, and what others may see of all processes that run now.
LOOK = """
echo "path $SUMMAND_TOKEN_FILE mode $(stat -c %a "$SUMMAND_TOKEN_FILE") lines $(wc -l <"$SUMMAND_TOKEN_FILE")"
token=$(<"$SUMMAND_TOKEN_FILE") || exit 1
[[ $token =~ ^[0-9a-f]{64}$ ]] && echo "it is 32 bytes"
for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do
    [[ $({ tr '\\0' ' ' <"$file"; } 2>/dev/null) != *$token* ]] || echo "seen in $file"
done
echo "$token" | sha256sum
"""


class TokenTest(JobTest):
    def run_with_servers(self, script, *flags):
        return self.run_job([bash(script), {}, reduction_servers(2)], "--grace=20", *flags)

    def path_of(self, run):
        """In the job's directory, or in the folder of the agent of another host."""
        path = os.path.realpath(run.job_dir) + "/token"
        if OVER_HOSTS:
            path = re.search(r"^export SUMMAND_TOKEN_FILE='(/.*/summand-agent-\w+/token)'$",
                             self.read(run, "env/workerpool0-0.env"), re.MULTILINE)[1]
        return path

    def test_servers_and_workers_have_it(self):
        """A worker with the token is let in, and one without it is not."""
        script = ("r() { summand-perf allreduce --group=g --nranks=1 --rank=0 --sizes=4K --iters=1; }; "
                  "r || exit 1; echo other > bad; chmod 600 bad; SUMMAND_TOKEN_FILE=bad r && exit 2; "
                  "env -u SUMMAND_TOKEN_FILE bash -c \"$(declare -f r); r\" && exit 3; rm bad; exit 0")
        run = self.run_with_servers(f"cd {self.dir}; {script}")
        self.assert_code(run, 0)
        lines = self.read(run, "logs/workerpool0-0.log").splitlines()
        self.assertEqual(len([line for line in lines if "token" in line]), 2)  # by one server or both

    def test_it_is_shown_nowhere(self):
        run = self.run_with_servers(LOOK + f"cp $SUMMAND_TOKEN_FILE {self.dir}/kept")
        self.assert_code(run, 0)
        path = self.path_of(run)
        said = self.read(run, "logs/workerpool0-0.log").splitlines()
        self.assertEqual(said[:2], [f"path {path} mode 600 lines 1", "it is 32 bytes"])
        self.assertEqual(len(said), 3, said)
        with open(self.path("kept"), encoding="ascii") as file:
            token = file.read().strip()
        self.assertFalse(os.path.exists(path), "nobody needs it any more")
        shown = run.out + run.err
        for folder, _, names in os.walk(run.job_dir):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    shown += file.read()
        self.assertNotIn(token, shown)
        self.assertIn(f"export SUMMAND_TOKEN_FILE='{path}'", self.read(run, "env/workerpool0-0.env"))

    def test_each_job_has_its_own(self):
        said = {self.read(self.run_with_servers(LOOK), "logs/workerpool0-0.log").splitlines()[-1] for _ in range(2)}
        self.assertEqual(len(said), 2)

    def test_what_was_there_is_replaced(self):
        spec = self.write_spec([bash(LOOK), {}, reduction_servers()])
        job = os.path.join(os.path.dirname(spec), "job")
        self.assert_code(self.finish(self.start_spec(spec, "--grace=20")), 0)
        os.symlink(self.path("elsewhere"), job + "/token")
        run = self.finish(self.start_spec(spec, "--grace=20"))
        self.assert_code(run, 0)
        self.assertIn(" mode 600 ", self.read(run, "logs/workerpool0-0.log"))
        self.assertFalse(os.path.exists(self.path("elsewhere")))

    def test_a_job_without_servers_has_none(self):
        """The caller's own is for servers of the caller's."""
        run = self.run_job([bash("echo ${SUMMAND_TOKEN_FILE-none}; ls $JOB")])
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").splitlines()[0], "none")
        with mock.patch.dict(os.environ, {"SUMMAND_TOKEN_FILE": "/mine"}):
            run = self.run_job([bash("echo ${SUMMAND_TOKEN_FILE-none}")])
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "none\n" if OVER_HOSTS else "/mine\n", "a host has variables of its own")

    def test_the_callers_is_not_the_jobs(self):
        with mock.patch.dict(os.environ, {"SUMMAND_TOKEN_FILE": "/mine"}):
            run = self.run_with_servers("echo $SUMMAND_TOKEN_FILE; summand-perf allreduce --group=g --nranks=1 --rank=0 "
                                        "--sizes=4K --iters=1")
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").splitlines()[0], self.path_of(run))

    def test_a_spec_may_bring_its_own(self):
        own = self.path("own")
        with open(os.open(own, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("open-sesame\n")
        chief = {**bash("summand-perf allreduce --group=g --nranks=1 --rank=0 --sizes=4K --iters=1"),
                 "env": [{"name": "SUMMAND_TOKEN_FILE", "value": own}]}
        run = self.run_job([chief, {}, {**reduction_servers(), "args": ["--token-file=" + own]}], "--grace=20")
        self.assert_code(run, 0)

    def test_env_tells_no_token(self):
        spec = self.write_spec([bash("true"), {}, reduction_servers()])
        done = subprocess.run([SUMMAND, "custom-jobs", "env", spec], capture_output=True, text=True, check=True)
        self.assertNotRegex(done.stdout, r"[0-9a-f]{64}")
        self.assertNotIn("TOKEN", done.stdout)

    def test_a_server_that_its_command_tells(self):
        """Whatever its image, and in a shell that does nothing else."""
        for container in {"command": ["/usr/bin/summand-reduction-server", "--threads=2"]}, \
                {"command": ["sh", "-c"], "args": ["exec summand-reduction-server --threads=2"]}, \
                {"args": ["summand-reduction-server", "--threads=2"]}:
            run = self.run_job([bash("summand-perf allreduce --group=g --nranks=1 --rank=0 --sizes=4K --iters=1"), {},
                                {**reduction_servers(), "imageUri": "example/summand:1", **container}], "--grace=20")
            self.assert_code(run, 0)
            self.assertNotIn("insecure", self.read(run, "logs/job.log"))
            self.assertIn("2 threads", self.read(run, "logs/workerpool2-0.log"))

    def test_a_server_may_listen_beyond_loopback(self):
        run = self.run_job([bash("true"), {}, {**reduction_servers(), "args": ["--listen=0.0.0.0:0"]}], "--grace=20")
        self.assert_code(run, 0)
        self.assertNotIn("insecure", self.read(run, "logs/job.log"))


if __name__ == "__main__":
    at_once.main()
