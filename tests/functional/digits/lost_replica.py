"""A replica of the main job is killed in the middle, and nothing is left.

If it is a worker, the job fails and names that replica and no other: the others hear of it by the end of their connections,
long before the heartbeat would tell them. If it is one of two reduction servers, the job learns on to the same weights, and uses the
one that is started in its place.
"""

import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
EPOCHS = 10 if os.environ.get("SUMMAND_SANITIZE") else 50
LONG = 100  # a server is started again after a second, and tried after two
RETURNS = not os.environ.get("SUMMAND_SANITIZE")  # there unit.test_returned_server is quicker
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


def run_job(job_dir, victim=None, epochs=EPOCHS):
    """Its exit code and what it printed; the victim, a replica and its program, is killed once the chief has learnt."""
    marker = "SUMMAND_TEST_MARKER=" + job_dir
    with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
        text = file.read().replace("--epochs=50", f"--epochs={epochs}").replace("--min-accuracy=0.95", "--min-accuracy=0.5")
    job = subprocess.Popen([f"{BUILD}/bin/summand", "custom-jobs", "local-run", "-", "--quiet", f"--job-dir={job_dir}"],
                           env=dict(os.environ, SUMMAND_TEST_MARKER=job_dir),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    job.stdin.write(text)
    job.stdin.close()
    job.stdin = None
    log = []
    if victim:
        wait_for_training(job, log)
        name, program = victim
        victims = [pid for pid in processes_with(marker, "SUMMAND_REPLICA=" + name) if program_of(pid) == program]
        check(len(victims) == 1, f"{name} must have one process {program}, got {victims}")
        os.kill(victims[0], signal.SIGKILL)
    out, err = job.communicate(timeout=120)
    print("".join(log) + out, err)
    check(processes_with(marker) == [], "no process may be left")
    return job.returncode, err


def lose_worker(name):
    with tempfile.TemporaryDirectory() as job_dir:
        code, err = run_job(job_dir, (name, "summand-digits"))
        check(code == 1, f"exit code must be 1, got {code}")
        check(err.startswith(f"The replica {name} was killed by signal 9 (Killed).\n"),
              f"the message must name {name}")
        check(err.count("The replica") == 1, "one replica is the cause, and no other")
        log = pathlib.Path(job_dir, "logs", "job.log").read_text(encoding="utf-8")
        reasons = set(re.findall(r" was lost: ([^;\n]*)", log))
        check(reasons and reasons <= ENDS, f"the others must hear of it by the end of a connection, got {reasons}")


def results_of(job_dir):
    with open(f"{job_dir}/summary.json", encoding="utf-8") as file:
        return {replica["name"]: replica["results"] for replica in json.load(file)["replicas"]}


def weights_of(job_dir):
    return {results["weights"] for results in results_of(job_dir).values() if "weights" in results}


def lose_server(name):
    with tempfile.TemporaryDirectory() as job_dir, tempfile.TemporaryDirectory() as calm_dir:
        code, err = run_job(job_dir, (name, "summand-reduction-server"), LONG if RETURNS else EPOCHS)
        check(code == 0 and err == "", f"the job must succeed, got {code}")
        log = pathlib.Path(job_dir, "logs", "job.log").read_text(encoding="utf-8")
        check(f"{name} was killed by signal 9 (Killed): training goes on with the other 1 of 2 reduction servers; "
              "it is started again in 1 s (1 of 5)" in log, "the loss must be told")
        if RETURNS:
            check(re.search("reduction server .* is there and serves again; 2 of 2 reduction servers go on", log),
                  "ranks must use the server that is started again")
            check(int(results_of(job_dir)[name]["chunks"]) > 0, "it must get chunks")
        check(run_job(calm_dir, epochs=LONG if RETURNS else EPOCHS)[0] == 0, "the job must succeed without a loss, too")
        disturbed, calm = weights_of(job_dir), weights_of(calm_dir)
        check(len(calm) == 1 and disturbed == calm, f"the weights must be {calm}, as without a loss, got {disturbed}")


lose_worker("workerpool1-1")
lose_server("workerpool2-1")
