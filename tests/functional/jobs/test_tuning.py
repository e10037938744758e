"""hp-tuning-jobs: all trials run, with their own parameters, variables and files; how they end, and what is left of them."""

import contextlib
import glob
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid

from stored import LONG, SOURCE, SUMMAND, StoreTest, at_once, wait_until

# A trial's program: --x=..., and what else it is to do. It reports by cloudml-hypertune, or as version 0.1.0.dev6 of that
# does: all reports so far, at most a hundred, are written anew with each one.
PROGRAM = """
import collections, json, os, sys, time
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
trial = os.environ["CLOUD_ML_TRIAL_ID"]
class HyperTune:
    def __init__(self):
        self.path = os.environ["CLOUD_ML_HP_METRIC_FILE"]
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.reports = collections.deque(maxlen=100)
    def report_hyperparameter_tuning_metric(self, tag, value, step=None, checkpoint_path=""):
        self.reports.append({"timestamp": time.time(), "trial": str(trial), tag: str(float(value)),
                             "global_step": str(int(step) if step else 0), "checkpoint_path": checkpoint_path})
        with open(self.path, "w") as file:
            for report in self.reports:
                file.write(json.dumps(report, sort_keys=True) + "\\n")
try:
    from hypertune import HyperTune
except ImportError:
    pass
tune = HyperTune()
def report(value, step, metric="loss"):
    tune.report_hyperparameter_tuning_metric(metric, value, step)
x = float(flags.get("x", 0))
"""


def double(name, low, high, **more):
    return {"parameterId": name, "doubleValueSpec": {"minValue": low, "maxValue": high}, **more}


def integer(name, low, high, **more):
    return {"parameterId": name, "integerValueSpec": {"minValue": low, "maxValue": high}, **more}


class TuningTest(StoreTest):
    def setUp(self):
        super().setUp()
        self.mark = uuid.uuid4().hex
        self.env["TEST_MARK"] = self.mark

    def tearDown(self):
        self.assertTrue(wait_until(lambda: not self.marked(), 20), self.marked())

    def marked(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                    if self.mark.encode() in environ.read():
                        found.append((int(pid), comm.read().strip()))
            except OSError:
                pass  # it has ended
        return found

    def write(self, script, trials=3, parallel=1, parameters=None, pool=None, job=None, **study):
        folder = tempfile.mkdtemp(dir=self.dir)
        program = os.path.join(folder, "program.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM + script)
        study = {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
                 "parameters": parameters or [double("x", -1, 1)], "algorithm": "RANDOM_SEARCH", **study}
        container = {"imageUri": "local", "command": [sys.executable, program]}
        spec = {"displayName": "tuned", "maxTrialCount": trials, "parallelTrialCount": parallel, "studySpec": study,
                "trialJobSpec": {"workerPoolSpecs": [{"containerSpec": container, **(pool or {})}]}, **(job or {})}
        path = os.path.join(folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        return path

    def tune(self, verb, *words, **options):
        return self.summand("hp-tuning-jobs", verb, *words, **options)

    def run_all(self, path, *flags, code=0):
        return json.loads(self.tune("local-run", path, "--format=json", *flags, code=code))

    def begin(self, path):
        run = subprocess.Popen([SUMMAND, "hp-tuning-jobs", "local-run", path, "--grace=5"], env=self.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, run)
        return run

    def described(self):
        return json.loads(self.tune("describe", "tuned", "--format=json"))

    def states(self):
        return [trial["state"] for trial in self.described().get("trials", [])]

    def test_all_trials_run(self):
        path = self.write("report(x * x, 1)\nreport(x * x + 1, 2)\n", trials=4, parallel=2)
        job = self.run_all(path, "--seed=3")
        self.assertRegex(job["name"], r"^projects/local/locations/local/hyperparameterTuningJobs/[1-9][0-9]{18}$")
        self.assertEqual(job["state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual([trial["id"] for trial in job["trials"]], ["1", "2", "3", "4"])
        for trial in job["trials"]:
            x = trial["parameters"][0]["value"]
            final = trial["finalMeasurement"]
            self.assertEqual(final["stepCount"], "2")
            self.assertAlmostEqual(final["metrics"][0]["value"], x * x + 1, 6)
            self.assertEqual((trial["state"], trial["parameters"][0]["parameterId"]), ("SUCCEEDED", "x"))
        again = self.run_all(path, "--seed=3")
        self.assertEqual([trial["parameters"] for trial in again["trials"]], [trial["parameters"] for trial in job["trials"]])
        listed = json.loads(self.tune("list", "--format=json"))
        self.assertEqual(len(listed), 2)
        self.assertEqual(json.loads(self.jobs("list", "--format=json")), [])
        name = job["name"]
        described = json.loads(self.tune("describe", name, "--format=json"))
        self.assertEqual((described["trials"], described["state"]), (job["trials"], job["state"]))
        self.jobs("describe", name, code=1)
        self.tune("delete", name)
        self.assertFalse(os.path.exists(described["jobDirectory"]))

    def test_the_table_and_the_best(self):
        path = self.write("report(x, 1)", parameters=[integer("x", 5, 7)], algorithm="GRID_SEARCH", trials=9)
        out = self.tune("local-run", path)
        self.assertRegex(out, r"(?m)^1 \* +SUCCEEDED +5 +1 +[0-9.]+ +5$")
        self.assertRegex(out, r"(?m)^3 +SUCCEEDED +7 +1 +[0-9.]+ +7$")
        self.assertIn("best: trial 1, loss 5 with --x=5\n", out)
        self.assertIn("the grid has no more points", out)

    def test_what_a_trial_gets(self):
        """Every replica has the arguments and the trial's id; parameters of a condition only where it holds."""
        script = """
import sys
cluster = json.loads(os.environ["CLUSTER_SPEC"])
assert cluster["task"]["trial"] == trial
assert json.loads(os.environ["TF_CONFIG"])["task"]["trial"] == trial
assert os.environ["AIP_MODEL_DIR"].endswith(f"/{trial}/model/"), os.environ["AIP_MODEL_DIR"]
assert ("depth" in flags) == (flags["kind"] == "tree"), flags
if cluster["task"]["type"] == "workerpool0":
    report(float(flags.get("depth", 9)), 1)
"""
        parameters = [{"parameterId": "kind", "categoricalValueSpec": {"values": ["line", "tree"]}, "conditionalParameterSpecs": [
            {"parentCategoricalValues": {"values": ["tree"]}, "parameterSpec": integer("depth", 1, 2)}]}]
        path = self.write(script, parameters=parameters, algorithm="GRID_SEARCH", trials=5)
        with open(path, encoding="utf-8") as file:
            spec = json.load(file)
        pools = spec["trialJobSpec"]["workerPoolSpecs"]
        pools.append(dict(pools[0], replicaCount=2))
        spec["trialJobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/tuned"}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        job = self.run_all(path)
        values = [[p["value"] for p in trial["parameters"]] for trial in job["trials"]]
        self.assertEqual(values, [["line"], ["tree", 1], ["tree", 2]])
        self.assertEqual({trial["state"] for trial in job["trials"]}, {"SUCCEEDED"})

    def test_trials_that_fail(self):
        script = """
if x == 1: sys.exit("no such layer")
if x == 2: pass
if x == 3: report("nan", 1)
if x == 4: report(1, 1, metric="accuracy")
if x == 5: report(5, 1)
"""
        path = self.write(script, parameters=[integer("x", 1, 5)], algorithm="GRID_SEARCH", trials=5,
                          job={"maxFailedTrialCount": 5})
        job = self.run_all(path)
        reasons = [trial.get("infeasibleReason") for trial in job["trials"]]
        self.assertIn("workerpool0-0 exited with a non-zero status of 1", reasons[0])
        self.assertEqual(reasons[1:], ["it reported no loss in the file of CLOUD_ML_HP_METRIC_FILE",
                                       "it reported no number for loss", "it reported accuracy, and not loss", None])
        self.assertEqual([trial["state"] for trial in job["trials"]], ["INFEASIBLE"] * 4 + ["SUCCEEDED"])
        self.assertEqual(job["state"], "JOB_STATE_SUCCEEDED")

    def test_several_metrics(self):
        """The best are those that no other one beats; a trial without one of the metrics is none."""
        script = "report({1: 1, 2: 3, 3: 3, 4: 0}[x], 2)\nif x != 4: report({1: 5, 2: 9, 3: 8}[x], 1, metric='accuracy')"
        metrics = [{"metricId": "loss", "goal": "MINIMIZE"}, {"metricId": "accuracy", "goal": "MAXIMIZE"}]
        path = self.write(script, trials=4, metrics=metrics, parameters=[integer("x", 1, 4)], algorithm="GRID_SEARCH")
        out = self.tune("local-run", path)
        self.assertIn("trial 2: SUCCEEDED", out)
        self.assertRegex(out, r"(?m)^trial 2: .*: loss 3, accuracy 9 at step 2, one of the best so far$")
        self.assertRegex(out, r"(?m)^trial 3: .*: loss 3, accuracy 8 at step 2$")
        self.assertRegex(out, r"(?m)^trial 4: INFEASIBLE .*: it reported loss, and not accuracy$")
        rows = [line.split()[:-1] for line in out.splitlines() if re.match(r"[1-4] ", line)]
        self.assertEqual([row[:5] for row in rows[:2]] + [row[:4] for row in rows[2:3]], [
            ["1", "*", "SUCCEEDED", "1", "5"], ["2", "*", "SUCCEEDED", "3", "9"], ["3", "SUCCEEDED", "3", "8"]])
        self.assertEqual(re.findall(r"(?m)^best: (.*)$", out), ["trial 1, loss 1, accuracy 5 with --x=1", "trial 2, loss 3, accuracy 9 with --x=2"])
        trial = self.described()["trials"][1]
        self.assertEqual(trial["finalMeasurement"]["metrics"], [{"metricId": "loss", "value": 3.0}, {"metricId": "accuracy", "value": 9.0}])
        job = self.run_all(self.write("report(x, 1)\nreport(-x, 1, metric='accuracy')", trials=12, parallel=3, metrics=metrics,
                                      algorithm="ALGORITHM_UNSPECIFIED"))
        self.assertEqual({trial["state"] for trial in job["trials"]}, {"SUCCEEDED"})

    def test_why_a_trial_failed(self):
        """The program's last lines; and what its runner could not put on the disk."""
        path = self.write("sys.exit('no such layer')", trials=1)
        self.assertRegex(self.tune("local-run", path, code=1), r"(?m)^trial 1: INFEASIBLE .*\n(.*\n)* +no such layer$")
        self.assertRegex(self.tune("stream-logs", "tuned"), r"(?m)^ERROR\t.*\tservice\t +no such layer$")
        folder = os.path.join(self.dir, "job")
        self.tune("local-run", self.write("report(1, 1)", trials=2), f"--job-dir={folder}")
        for name in "trials/1", "trials/2/env":
            shutil.rmtree(os.path.join(folder, name))
            with open(os.path.join(folder, name), "wb"):
                pass
        out = self.tune("local-run", self.write("report(1, 1)", trials=2), f"--job-dir={folder}", code=1)
        self.assertEqual(len(re.findall("INFEASIBLE after .*Not a directory", out)), 2, out)

    def many_words(self):
        """A study that says more than a pipe takes."""
        values = {"values": [letter * 9000 for letter in "abc"]}
        return self.write("report(1, 1)", trials=12, parallel=3, parameters=[{"parameterId": "words", "categoricalValueSpec": values}])

    def test_a_reader_that_does_not_read(self):
        """The study goes on, what it says is not lost, and an interruption ends it."""
        for interrupt in (False, True):
            with self.subTest(interrupt=interrupt), subprocess.Popen(
                    [SUMMAND, "hp-tuning-jobs", "local-run", self.many_words()], env=self.env, stdout=subprocess.PIPE) as run:
                self.assertTrue(wait_until(lambda: self.tune("list", "--format=value(state)") == "JOB_STATE_SUCCEEDED\n"))
                if interrupt:
                    run.send_signal(signal.SIGINT)
                    self.assertEqual(run.wait(LONG), 0)
                else:
                    said = re.findall(r"(?m)^(trial \d+: started|\d+(?: \*)? +SUCCEEDED|best: trial)", run.stdout.read().decode())
                    self.assertEqual(len(said), 12 + 12 + 1, said)
            self.tune("delete", "tuned")

    def test_what_trials_print(self):
        script = 'print("to out\\x1b[1m", x, flush=True)\nprint("to err", file=sys.stderr, flush=True)\nreport(x, 1)'
        pool = {"replicaCount": 1}
        path = self.write(script, parameters=[integer("x", 5, 6)], algorithm="GRID_SEARCH", trials=2, pool=pool)
        out = self.tune("local-run", path)
        for trial, x in ("1", "5.0"), ("2", "6.0"):
            self.assertIn(f"\ntrial {trial} workerpool0-0 | to out\x1b[1m {x}\n", out)
            self.assertLess(out.index(f"\ntrial {trial} workerpool0-0 | to err\n"), out.index(f"\ntrial {trial}: SUCCEEDED"))
        self.assertNotIn("workerpool0-0", self.err)
        self.assertNotIn("to out", self.tune("local-run", path, "--quiet"))
        self.assertEqual(len(self.run_all(path)["trials"]), 2)
        self.assertIn("\ntrial 2 workerpool0-0 | to err\n", self.err)
        self.assertIn("\x1b[33mtrial 2\x1b[0m workerpool0-0 | to err\n", self.tune("local-run", path, "--color=always"))
        self.tune("local-run", path, "--stream-logs", code=2)
        shown = self.at_a_terminal(path)
        self.assertIn("workerpool0-0 | to out 6.0\r\n", shown)
        self.assertIn("\x1b[33mtrial 2\x1b[0m ", shown)
        self.assertNotIn("\x1b[1m", shown)

    def at_a_terminal(self, path):
        master, slave = pty.openpty()
        shown = b""
        with subprocess.Popen([SUMMAND, "hp-tuning-jobs", "local-run", path], env={**self.env, "TERM": "xterm"}, stdout=slave,
                              stderr=slave):
            os.close(slave)
            with contextlib.suppress(OSError):  # EIO: the job has ended
                while part := os.read(master, 65536):
                    shown += part
        os.close(master)
        return shown.decode()

    def test_trials_that_print_much_lose_nothing(self):
        script = 'for i in range(20000): print(f"{i:05d}", "." * 60)\nreport(x, 1)'
        out = self.tune("local-run", self.write(script, trials=3, parallel=3))
        for trial in 1, 2, 3:
            self.assertEqual(re.findall(rf"(?m)^trial {trial} workerpool0-0 \| ([0-9]+) \.{{60}}$", out),
                             [f"{i:05d}" for i in range(20000)])

    def test_what_nobody_reads_is_left_out(self):
        path = self.write('for i in range(250000): print(f"{i:06d}", "." * 60)\nreport(x, 1)', trials=1)
        with subprocess.Popen([SUMMAND, "hp-tuning-jobs", "local-run", path], env=self.env, stdout=subprocess.PIPE) as run:
            self.assertTrue(wait_until(lambda: self.tune("list", "--format=value(state)") == "JOB_STATE_SUCCEEDED\n"))
            out = run.stdout.read().decode()
        lost = re.findall(r"(?m)^summand: (\d+) lines are left out here, because nothing was read for a while; logs/job.log and the", out)
        self.assertEqual(sum(map(int, lost)) + len(re.findall(r"(?m)^trial 1 workerpool0-0 \| \d{6} \.{60}$", out)), 250000, lost)
        self.assertEqual(len(lost), 1)
        self.assertIn("best: trial 1", out)

    def test_standard_output_that_nobody_has(self):
        path = self.write("report(1, 1)", trials=2)
        for out in ">&-", ">/dev/full", "2>&-", "| head -1":
            run = subprocess.run(f"{SUMMAND} hp-tuning-jobs local-run {path} --job-dir={self.dir}/job {out}; exit ${{PIPESTATUS[0]}}",
                                 env=self.env, shell=True, executable="bash", capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, out + run.stderr)

    def test_the_line_at_the_bottom(self):
        path = self.write("report(1, 1); time.sleep(1)", trials=2)
        for term in "xterm", "dumb":
            master, slave = pty.openpty()
            with subprocess.Popen([SUMMAND, "hp-tuning-jobs", "local-run", path], env={**self.env, "TERM": term},
                                  stdout=slave, stderr=slave):
                os.close(slave)
                said = b""
                with contextlib.suppress(OSError):
                    while part := os.read(master, 65536):
                        said += part
                os.close(master)
            self.assertEqual(b"of 2 trials ended, 1 run: 1\r\x1b[K" in said, term == "xterm", said)
            self.assertEqual(b"\x1b" in said, term == "xterm", said)

    def test_the_table_is_kept(self):
        """With characters that take more bytes than one."""
        parameters = [{"parameterId": "größe", "categoricalValueSpec": {"values": ["klein", "größer", "\u202e" * 50]}}]
        self.tune("local-run", self.write("report(1, 1)", parameters=parameters, algorithm="GRID_SEARCH"))
        rows = [line.split("\t")[3] for line in self.tune("stream-logs", "tuned").splitlines()]
        rows = rows[-6:-2]
        self.assertEqual(rows[0].split(), ["TRIAL", "STATE", "loss", "STEP", "SECONDS", "größe"])
        column = rows[0].index("größe")
        self.assertEqual([row[column:] for row in rows], ["größe", "klein", "größer", "?" * 40])

    def test_too_many_failures(self):
        path = self.write("sys.exit(3)", trials=20, job={"maxFailedTrialCount": 2})
        job = self.run_all(path, code=1)
        self.assertEqual((job["state"], len(job["trials"])), ("JOB_STATE_FAILED", 2))
        self.assertEqual(job["error"]["message"], "maxFailedTrialCount trials have failed")
        job = self.run_all(self.write("sys.exit(3)", trials=20), code=1)
        self.assertEqual((job["error"]["message"], len(job["trials"])), ("its first trials have all failed", 3))

    def test_many_reports(self):
        """A file of metrics has the last hundred."""
        path = self.write("for step in range(1, 251): report(1 / step, step)\n"
                          "assert len(open(os.environ['CLOUD_ML_HP_METRIC_FILE']).readlines()) == 100", trials=1)
        self.assertEqual(self.run_all(path)["trials"][0]["finalMeasurement"]["stepCount"], "250")

    def test_best_measurement(self):
        path = self.write("for step, loss in enumerate([3, 1, 2]): report(loss, step)", trials=1,
                          measurementSelectionType="BEST_MEASUREMENT")
        self.assertEqual(self.run_all(path)["trials"][0]["finalMeasurement"]["metrics"], [{"metricId": "loss", "value": 1.0}])

    def test_bad_trials_end_early(self):
        """The first five are done at once; the sixth is worse at step 1, and would go on for minutes."""
        script = "report(int(trial), 1)\nif trial == '6': time.sleep(300)\n"
        path = self.write(script, trials=6, medianAutomatedStoppingSpec={})
        out = self.tune("local-run", path, "--grace=1")
        self.assertRegex(out, r"trial 6: SUCCEEDED after [0-9.]+ s: loss 6 at step 1, ended early: below the median")

    def test_a_study_that_stops_early(self):
        path = self.write("report(0, 1)", trials=50, studyStoppingConfig={"maxNumTrialsNoProgress": 2})
        job = self.run_all(path)
        self.assertEqual((job["state"], len(job["trials"])), ("JOB_STATE_SUCCEEDED", 3))

    def test_gpus_are_divided(self):
        pool = {"machineSpec": {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}}
        shared = os.path.join(self.dir, "gpus")
        script = f"""
with open({shared!r}, "a") as file: file.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\\n")
while len(open({shared!r}).readlines()) < 2: time.sleep(0.05)
report(1, 1)
"""
        path = self.write(script, trials=2, parallel=2, pool=pool)
        self.env["CUDA_VISIBLE_DEVICES"] = "4"
        self.tune("local-run", path, code=2)
        self.assertIn("2 trials at once with 1 each need 2, got 1: lower parallelTrialCount", self.err)
        self.env["CUDA_VISIBLE_DEVICES"] = "4,7"
        self.tune("local-run", path)
        with open(shared, encoding="ascii") as file:
            self.assertEqual(sorted(file.read().split()), ["4", "7"])

    def test_the_page(self):
        """Each command of the guide, with less trials; and its table."""
        with open(os.path.join(SOURCE, "specs/guide/hp-tuning.md"), encoding="utf-8") as page:
            blocks = [line[4:] for line in page.read().splitlines() if line.startswith("    ")]
        commands = [line.replace("tuning.yaml", "tuning.yaml --max-trial-count=3 --parallel-trial-count=3")
                    for line in blocks if line.startswith("summand ")]
        self.assertEqual([line.split()[2] for line in commands], ["local-run", "create", "stream-logs", "describe"])
        heading = next(line for line in blocks if line.startswith("TRIAL ")).split()
        env = {**self.env, "PATH": os.path.dirname(SUMMAND) + os.pathsep + self.env.get("PATH", os.defpath)}
        said = {}
        for line in commands:
            run = subprocess.run(line, shell=True, cwd=SOURCE, env=env, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, line + run.stdout + run.stderr)
            said[line.split()[2]] = run.stdout
            if " local-run " in line:
                self.tune("delete", "tune line")
        for verb in "local-run", "stream-logs":
            self.assertIn(heading, [line.rpartition("\t")[2].split() for line in said[verb].splitlines()])
        self.assertEqual(json.loads(said["describe"])["trials"][2]["state"], "SUCCEEDED")

    def test_what_is_refused(self):
        self.tune("local-run", self.write_spec("true"), code=2)
        self.assertIn("must be a HyperparameterTuningJob", self.err)
        path = self.write("", metrics=[{"metricId": "a", "goal": "MINIMIZE"}, {"metricId": "b", "goal": "MINIMIZE"}],
                          medianAutomatedStoppingSpec={})
        self.tune("validate", path, code=2)
        self.assertIn("/studySpec/medianAutomatedStoppingSpec: must be of a study with one metric, got 2", self.err)
        self.assertIn("is valid", self.tune("validate", self.write("")))
        self.assertIn("chief", self.tune("plan", self.write("")))

    def test_interrupted(self):
        run = self.begin(self.write("report(1, 1)\ntime.sleep(300)", trials=4, parallel=2))
        reports = os.path.join(self.state, "jobs", "*", "trials", "*", "metrics", "*")
        self.assertTrue(wait_until(lambda: sum(os.path.getsize(path) > 0 for path in glob.glob(reports)) == 2))
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(LONG), 130)
        job = self.described()
        self.assertEqual(job["state"], "JOB_STATE_CANCELLED")
        self.assertEqual([trial["state"] for trial in job["trials"]], ["SUCCEEDED", "SUCCEEDED"])

    def test_killed(self):
        """kill -9 of the guard, then of the runner: nothing is left, and the store says so."""
        for kill_child in (False, True):
            run = self.begin(self.write("time.sleep(300)", trials=4, parallel=2))
            self.assertTrue(wait_until(lambda: len([1 for _, name in self.marked() if name.startswith("python")]) >= 2))
            with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
                runner = int(children.read().split()[0])
            os.kill(runner if kill_child else run.pid, signal.SIGKILL)
            run.wait(LONG)
            self.assertTrue(wait_until(lambda: not self.marked(), 30), self.marked())
            jobs = json.loads(self.tune("list", "--format=json"))
            self.assertEqual(jobs[0]["state"], "JOB_STATE_FAILED")
            self.assertIn("runner was killed by signal 9" if kill_child else "guard was killed", jobs[0]["error"]["message"])
            self.assertEqual({trial["state"] for trial in jobs[0]["trials"]}, {"INFEASIBLE"})

    def test_created_and_cancelled(self):
        name = self.tune("create", self.write("time.sleep(300)", trials=2), "--format=value(name)", "--grace=2").strip()
        self.assertIn(f"HyperparameterTuningJob [{name}] is submitted successfully.", self.err)
        self.assertTrue(wait_until(lambda: self.states() == ["ACTIVE"]))
        self.tune("cancel", name)
        self.assertIn("summand hp-tuning-jobs describe", self.err)
        self.tune("wait", name, code=1)
        self.assertEqual(self.states(), ["INFEASIBLE"])
        self.assertIn("trial 1: started", self.tune("stream-logs", name))
        self.tune("delete", name)

    def test_a_directory_used_again(self):
        """What a trial of an earlier job has reported is not this one's."""
        folder = os.path.join(self.dir, "job")
        self.tune("local-run", self.write("report(1, 1)", trials=1), f"--job-dir={folder}")
        job = self.run_all(self.write("pass", trials=1), f"--job-dir={folder}", code=1)
        self.assertEqual(job["trials"][0]["infeasibleReason"], "it reported no loss in the file of CLOUD_ML_HP_METRIC_FILE")
        job = self.run_all(self.write("report(1, 1)", trials=1), f"--job-dir={folder}")
        self.assertEqual(job["trials"][0]["state"], "SUCCEEDED")


if __name__ == "__main__":
    at_once.main()
