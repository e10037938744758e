"""The main job as a newcomer runs it: it learns, every worker has the same weights, and nothing stays behind. It runs
twice, to the same weights; with a sanitizer, which makes it many times slower, once, and for fewer epochs."""

import json
import os
import subprocess
import sys
import tempfile

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
WORKERS = ["workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool1-2"]
SERVERS = ["workerpool2-0", "workerpool2-1"]
EVALUATOR = "workerpool3-0"
REPLICAS = WORKERS + SERVERS + [EVALUATOR]
SANITIZED = bool(os.environ.get("SUMMAND_SANITIZE"))
ACCURACY = 0.5 if SANITIZED else 0.95


def check(condition, text):
    if not condition:
        sys.exit("main job: " + text)


def processes_with(marker):
    """Ids of living processes whose environment has the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker.encode() in file.read():
                    found.append(pid)
        except OSError:
            pass  # it ended meanwhile
    return found


def shorter_spec(job_dir):
    with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
        text = file.read().replace("--epochs=50", "--epochs=10").replace("--min-accuracy=0.95", f"--min-accuracy={ACCURACY}")
    with open(f"{job_dir}.json", "w", encoding="utf-8") as file:
        file.write(text)
    return f"{job_dir}.json"


def run_job(job_dir):
    marker = "SUMMAND_TEST_MARKER=" + job_dir
    spec = shorter_spec(job_dir) if SANITIZED else f"{SOURCE}/specs/jobs/digits.json"
    done = subprocess.run(
        [f"{BUILD}/bin/summand", "custom-jobs", "local-run", spec, "--quiet", f"--job-dir={job_dir}"],
        env=dict(os.environ, SUMMAND_TEST_MARKER=job_dir),
        capture_output=True, text=True, timeout=280)
    print(done.stdout, done.stderr)
    check(done.returncode == 0, f"exit code must be 0, got {done.returncode}")
    check(done.stderr == "", "nothing may be written to standard error")
    check(processes_with(marker) == [], "no process may be left")
    with open(f"{job_dir}/summary.json") as file:
        return done.stdout.splitlines(), json.load(file)


def check_order(lines):
    """Reduction servers say that they are ready before any worker starts."""
    ready = max(i for i, line in enumerate(lines) if "ready" in line and line.startswith("workerpool2"))
    for name in WORKERS + [EVALUATOR]:
        started = next(i for i, line in enumerate(lines) if line.startswith(name) and "started" in line)
        check(started > ready, f"{name} must start after the reduction servers are ready")


def check_job(job_dir, lines, summary):
    replicas = {replica["name"]: replica for replica in summary["replicas"]}
    check(sorted(replicas) == sorted(REPLICAS), "the summary must list every replica")
    check(summary["state"] == "JOB_STATE_SUCCEEDED", "the job must have succeeded")
    check(summary["accuracy"] >= ACCURACY, f"accuracy must be at least {ACCURACY}, got {summary['accuracy']}")
    for name in REPLICAS:
        check(replicas[name]["exit"] == "0", f"{name} must have ended with 0, got {replicas[name]['exit']}")
        check(os.path.exists(f"{job_dir}/logs/{name}.log"), f"{name} must have a log")
    for name in SERVERS:
        for key in ("bytes_received", "bytes_sent", "chunks"):
            check(int(replicas[name]["results"][key]) > 0, f"{key} of {name} must not be 0")
    check_order(lines)
    weights = {replicas[name]["results"]["weights"] for name in WORKERS}
    check(len(weights) == 1, f"the weights must be the same on all workers, got {weights}")
    return weights.pop()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        weights = set()
        for run in ("first",) if SANITIZED else ("first", "second"):
            job_dir = f"{scratch}/{run}"
            weights.add(check_job(job_dir, *run_job(job_dir)))
        check(len(weights) == 1, f"all runs must end with the same weights, got {weights}")


main()
