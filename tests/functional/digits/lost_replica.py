"""A replica of the main job is killed in the middle: the job fails, names that replica and no other, and leaves nothing.

The others hear of it by the end of their connections, long before the heartbeat would tell them.
"""

import errno
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
ENDS = {"the other end closed the connection", os.strerror(errno.ECONNRESET), os.strerror(errno.EPIPE)}


def check(condition, text):
    if not condition:
        sys.exit("lost replica: " + text)


def processes_with(*markers):
    """Ids of living processes whose environment has all markers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if all(marker.encode() in words for marker in markers):
            found.append(int(pid))
    return found


def program_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.path.basename(file.read().split(b"\0")[0].decode())


def wait_for_training(job, log):
    """Until the chief has reported an epoch."""
    for line in job.stdout:
        log.append(line)
        if line.startswith("workerpool0-0") and "epoch" in line:
            return
    sys.exit("lost replica: the job ended before it trained\n" + "".join(log))


def kill_one(name, program):
    with tempfile.TemporaryDirectory() as job_dir:
        marker = "SUMMAND_TEST_MARKER=" + job_dir
        job = subprocess.Popen(
            [f"{BUILD}/bin/summand", "custom-jobs", "local-run", f"{SOURCE}/specs/jobs/digits.json", "--quiet", f"--job-dir={job_dir}"],
            env=dict(os.environ, SUMMAND_TEST_MARKER=job_dir),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        log = []
        wait_for_training(job, log)
        victims = [pid for pid in processes_with(marker, "SUMMAND_REPLICA=" + name) if program_of(pid) == program]
        check(len(victims) == 1, f"{name} must have one process {program}, got {victims}")
        os.kill(victims[0], signal.SIGKILL)
        out, err = job.communicate(timeout=120)
        print("".join(log) + out, err)
        check(job.returncode == 1, f"exit code must be 1, got {job.returncode}")
        check(err.startswith(f"The replica {name} was killed by signal 9 (Killed).\n"),
              f"the message must name {name}")
        check(err.count("The replica") == 1, "one replica is the cause, and no other")
        log = pathlib.Path(job_dir, "logs", "job.log").read_text(encoding="utf-8")
        reasons = set(re.findall(r" was lost: ([^;\n]*)", log))
        check(reasons and reasons <= ENDS, f"the others must hear of it by the end of a connection, got {reasons}")
        check(processes_with(marker) == [], "no process may be left")


kill_one("workerpool1-1", "summand-digits")
kill_one("workerpool2-1", "summand-reduction-server")
