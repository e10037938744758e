"""Jobs on a Slurm cluster: how they get hosts, how they end, what ends them from outside, and that nothing stays."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import cluster
from engine_case import ENGINE, NODES, EngineCase
from job import AGENT, LONG, SUMMAND, bash, command_of, pool, processes_with, reduction_servers, wait_until

SOURCE = os.environ["SUMMAND_SOURCE"]
RESTARTS = {"restartJobOnWorkerRestart": True}


class Endings:
    """What ends a job from outside: Slurm's signals reach all processes of a step, or where it has control groups its tasks alone."""

    def test_cancelled_while_it_runs(self):
        script = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.1; done"
        run = self.start([bash(script), bash(script), reduction_servers()], ENGINE)
        number = self.job_number()
        self.wait_for_line(run, "workerpool1-0", "started")
        run.send_signal(signal.SIGINT)
        self.finish(run)
        self.assert_code(run, 130)
        self.assertIn("asked", self.log(run, "workerpool1-0"))
        for index in range(3):  # a server, and a reducer on each worker's host
            self.assertIn("ended: ", self.log(run, f"workerpool2-{index}"))
        self.assert_completed(number, len(self.states(number)))

    def test_cancelled_by_slurm(self):
        """It is the user's wish: it is not begun anew."""
        script = "trap 'echo asked; sleep 0.5; echo over; exit 0' TERM; echo started; while :; do sleep 0.1; done"
        run = self.start([bash(script), bash(script)], ENGINE, scheduling=RESTARTS)
        self.wait_for_line(run, "workerpool1-0", "started")
        number = self.job_number()
        self.slurm.run("scancel", number)
        self.finish(run)
        self.assert_code(run, 1)
        self.assertRegex(run.err, rf"was lost with its host: host node\w+: Slurm ends job {number}: it is cancelled")
        self.assertIn("over", self.log(run, "workerpool1-0"), "replicas must have their grace period")

    def test_requeued(self):
        """Other hosts are asked for, by the job's policy."""
        run = self.start([bash("echo started; sleep 4"), bash("sleep 4")], ENGINE, scheduling=RESTARTS)
        self.wait_for_line(run, "workerpool0-0", "started")
        number = self.job_number()
        self.slurm.run("scontrol", "requeue", number)
        self.finish(run)
        self.assert_code(run, 0)
        self.assertRegex(run.out, rf"lost with its host: host node\w+: Slurm ends job {number}: it is requeued: restart 1 of")
        self.assertEqual(self.log(run, "workerpool0-0").count("started"), 2)

    def test_preempted(self):
        """By a job of a partition that comes first: the job waits for that, and is begun anew."""
        script = "trap 'echo asked; exit 0' TERM; echo started; [ $SUMMAND_RESTARTS = 1 ] || while :; do sleep 0.1; done"
        run = self.start([bash(script), bash(script), reduction_servers()], ENGINE, scheduling=RESTARTS)
        for name in ("workerpool0-0", "workerpool1-0"):
            self.wait_for_line(run, name, "started")
        number = self.job_number()
        self.slurm.run("sbatch", "--partition=urgent", f"--nodes={NODES}", "--exclusive", "--output=/dev/null", "--wrap=sleep 3",
                       env={"TEST_MARK": ""})
        self.finish(run)
        self.assert_code(run, 0)
        self.assertRegex(run.out, rf"lost with its host: host node\w+: Slurm ends job {number}: it is preempted: restart 1 of")
        self.assertIn("asked", self.log(run, "workerpool0-0"), "replicas must be asked to end")
        self.assertIn("ended: ", self.log(run, "workerpool2-0"), "servers, too")
        self.assertEqual(self.log(run, "workerpool0-0").count("started"), 2)

    def kill_runner(self, run, *others):
        os.kill(self.runner_of(run), signal.SIGKILL)
        self.finish(run)
        self.assert_code(run, 1)
        self.assertTrue(wait_until(lambda: len(self.queue()) == len(others), 30), self.queue())
        self.assertTrue(wait_until(lambda: not processes_with(self.mark), 20))

    def test_a_killed_runner(self):
        """Replicas have their grace period, which is longer than Slurm's KillWait; agents remove their folders (tearDown())."""
        ended = self.path("ended")
        script = f"trap 'sleep 7; touch {ended}.$RANK; exit 0' TERM; echo started; while :; do sleep 0.1; done"
        run = self.start([bash(script), bash(script), reduction_servers()], ENGINE)
        number = self.job_number()
        for name in ("workerpool0-0", "workerpool1-0"):
            self.wait_for_line(run, name, "started")
        self.kill_runner(run)
        for rank in (0, 1):
            self.assertTrue(os.path.exists(f"{ended}.{rank}"), "replicas must have their grace period")
        self.assertEqual(set(self.states(number)), {"COMPLETED"})


@unittest.skipUnless(cluster.can_track_by_cgroup(), "control groups cannot be made here")
class ControlGroupsTest(Endings, EngineCase):
    TRACKS = "cgroup"


class LostNodesTest(EngineCase):
    """These wait for Slurm's time limits, or long for other jobs."""

    def test_the_queue_does_not_count(self):
        """Of a job's time."""
        filler = self.fill()
        run = self.start([bash("echo started"), bash("exit 0")], ENGINE, timeout="30s")
        self.assertTrue(wait_until(lambda: len(self.queue()) > 1))
        time.sleep(31)
        self.slurm.run("scancel", filler)
        self.finish(run)
        self.assert_code(run, 0)

    def test_a_node_that_dies(self):
        """Named within the time of slurm.conf, and the job goes on without it."""
        script = f"echo on $SLURMD_NODENAME; [ -e {self.path('again')} ] || sleep 100; sleep 5"
        run = self.start([bash(script), bash(script)], ENGINE, scheduling=RESTARTS)
        self.wait_for_line(run, "workerpool1-0", "on node")
        node = re.search(r"on (node\d)", self.log(run, "workerpool1-0")).group(1)
        self.slurm.nodes[node].kill()
        self.slurm.nodes[node].wait()
        with open(self.path("again"), "w", encoding="ascii"):
            pass
        begin = time.monotonic()
        self.assertTrue(wait_until(lambda: self.log(run, "workerpool1-0").count("on node") > 1 or run.poll() is not None))
        self.assertLess(time.monotonic() - begin, 60)
        self.slurm.start_node(node)
        self.finish(run)
        self.assert_code(run, 0)
        self.assertRegex(run.out, rf"host {node}: ")
        self.assertNotIn(node, self.log(run, "workerpool1-0").splitlines()[-1])

    def test_a_node_that_dies_without_restarts(self):
        run = self.start([bash("sleep 600"), bash("echo on $SLURMD_NODENAME; sleep 600")], ENGINE, labels={"max-restarts": "0"})
        self.wait_for_line(run, "workerpool1-0", "on node")
        node = re.search(r"on (node\d)", self.log(run, "workerpool1-0")).group(1)
        self.slurm.nodes[node].kill()
        self.slurm.nodes[node].wait()
        try:
            self.finish(run, 2 * LONG)
        finally:
            self.slurm.start_node(node)
        self.assert_code(run, 1)
        self.assertRegex(run.err, rf"was lost with its host: host {node}: ")

    @unittest.skipIf(subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode, "no network namespace can be made")
    def test_a_node_that_cannot_connect_back(self):
        done = self.with_agent(f'[ "$1 $SLURMD_NODENAME" != "--host node1" ] || exec unshare -n {AGENT} "$@"')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"host node1: .*runner: must be reached at \S+:\d+.*, got [^;]+; the host of `summand` must "
                         "take connections from this one")


class EngineTest(Endings, EngineCase):
    # ---- jobs that go well, or fail ----

    def test_digits_with_two_servers(self):
        with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
            spec = json.load(file)
        pools = spec["jobSpec"]["workerPoolSpecs"]
        del pools[3:]
        pools[1]["replicaCount"] = 1
        for index in (0, 1):
            pools[index]["containerSpec"]["args"] = ["--epochs=5", *pools[index]["containerSpec"]["args"][1:]]
        path = self.path("spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        run = self.start_spec(path, ENGINE)
        number = self.job_number()
        self.finish(run)
        self.assert_code(run, 0)
        weights = set(re.findall(r"weights (\w+)", self.log(run, "workerpool0-0") + self.log(run, "workerpool1-0")))
        self.assertEqual(len(weights), 1, f"all ranks must have the same weights, got {weights}")
        for index in (0, 1):
            self.assertIn("ended: ", self.log(run, f"workerpool2-{index}"), "servers must be asked to end, and not be killed")
        self.assert_completed(number, 3)

    def test_fewer_servers_than_workers_nodes(self):
        """Each worker's node has a reducer beside the worker. More servers than in the job file would need nodes that Slurm has not given."""
        work = "echo $SUMMAND_REDUCTION_SERVERS; until [ -e $TEST_JOB_DIR/end ]; do sleep 0.1; done; " \
            "exec summand-perf allreduce --group=slurm --nranks=2 --rank=$RANK --sizes=128K,1M --each"
        run = self.start([bash(work), bash(work), reduction_servers(1)], ENGINE)
        self.wait_for_line(run, "workerpool0-0", ":")
        scale = [SUMMAND, "custom-jobs", "scale", self.read_json(run, "state.json")["name"], "--replicas=2"]
        refused = subprocess.run(scale, capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("1 reduction server stays: workerpool2-3: must find a host with a free slot, got none", refused.stderr)
        open(os.path.join(run.job_dir, "end"), "w", encoding="ascii").close()
        self.finish(run)
        self.assert_code(run, 0)
        self.assertIn("1 reduction server for 2 workers' hosts: a reducer on each of these, with 1/2 of a server's share", run.out)
        chunks = [int(re.search(r"ended: (\d+) chunks reduced", self.log(run, f"workerpool2-{index}"))[1]) for index in range(3)]
        self.assertTrue(all(chunks), chunks)

    def test_what_is_asked_for(self):
        spec = self.write_spec([{**bash("sleep 5"), "accelerators": 2}, bash("sleep 5", 2)],
                               timeout="3000s")
        run = self.start_spec(spec, ENGINE, "--oversubscribe", "--slurm-partition=debug", "--slurm-account=physics",
                              "--slurm-option=workerpool1:--cpus-per-task=3")
        number = self.job_number()
        self.assertTrue(wait_until(lambda: set(self.states(number)) == {"RUNNING"}))
        told = self.slurm.run("scontrol", "--oneliner", "show", "job", number).stdout.splitlines()
        self.assertEqual(len(told), 2)
        for line in told:
            self.assertIn("MinMemoryNode=30G ", line)
            self.assertIn("TimeLimit=01:00:00 ", line)
            self.assertIn("Account=physics ", line)
        self.assertIn("NumNodes=1 ", told[0])
        self.assertIn("TresPerNode=gres:gpu:2 ", told[0])
        self.assertIn("CPUs/Task=8 ", told[0])
        self.assertIn("NumNodes=2 ", told[1])
        self.assertNotIn("gpu", told[1])
        self.assertIn("CPUs/Task=3 ", told[1])
        run.send_signal(signal.SIGINT)
        self.finish(run)

    def test_one_pool(self):
        """That is no heterogeneous job."""
        run = self.run_job([bash("echo $CLUSTER_SPEC")], ENGINE)
        self.assert_code(run, 0)
        self.assertIn('"workerpool0":["', self.log(run, "workerpool0-0"))

    def test_variables_of_a_profile(self):
        """They are no defaults of the commands by which a job is asked for, looked at and held."""
        hostile = {"SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "COMPLETED", "SRUN_CPUS_PER_TASK": "64", "SCANCEL_STATE": "PENDING",
                   "SBATCH_WAIT": "1", "SBATCH_ARRAY_INX": "1-2", "SCONTROL_ALL": "1"}
        with mock.patch.dict(os.environ, hostile):
            run = self.start([bash("echo started; while [ ! -e $TEST_JOB_DIR/end ]; do sleep 0.1; done"), bash("exit 0")], ENGINE)
        number = self.job_number()
        self.wait_for_line(run, "workerpool0-0", "started")
        [holder] = [pid for pid in processes_with(self.mark) if "/slurm_script" in command_of(pid)]
        with open(f"/proc/{holder}/environ", "rb") as file:
            names = [line.partition(b"=")[0].decode() for line in file.read().split(b"\0")]
        self.assertEqual([name for name in names if name in hostile], [])
        self.assert_lives(number)
        open(os.path.join(run.job_dir, "end"), "w", encoding="ascii").close()
        self.finish(run)
        self.assert_code(run, 0)

    def assert_lives(self, number):
        """A holder in whose environment a prolog has put SQUEUE_PARTITION; its pauses are shortened."""
        script = self.slurm.run("scontrol", "write", "batch_script", number, "-").stdout
        with open(self.path("holder"), "w", encoding="utf-8") as file:
            file.write(script.replace("pause=30 ", "pause=0.1 "))
        with self.assertRaises(subprocess.TimeoutExpired, msg="it must see the steps"):
            self.slurm.run("timeout", "3", "sh", self.path("holder"), timeout=2,
                           env={"SLURM_JOB_ID": number, "SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "COMPLETED"})

    def test_replicas_share_nodes(self):
        run = self.run_job([bash("echo on $SLURMD_NODENAME"), bash("echo on $SLURMD_NODENAME", 4)], ENGINE,
                           "--slurm-option=workerpool1:--nodes=2")
        self.assert_code(run, 0)
        nodes = [self.log(run, f"workerpool1-{index}") for index in range(4)]
        self.assertEqual(len(set(nodes)), 2)
        self.assertEqual(nodes[0], nodes[1])

    def test_gpus(self):
        """Each replica has GPUs of its own, of those that Slurm gives: another job has the first two of each node."""
        other = self.slurm.run("sbatch", "--parsable", f"--nodes={NODES}", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 600",
                               env={"TEST_MARK": ""}).stdout.strip()
        self.addCleanup(self.slurm.run, "scancel", other, check=False)
        self.assertTrue(wait_until(lambda: self.states(other) == ["RUNNING"]))
        program = {**bash("echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"), "accelerators": 2}
        run = self.run_job([program, {**program, "replicaCount": 2}, bash("echo ${CUDA_VISIBLE_DEVICES:-none}")], ENGINE, "--slurm-option=--mem=1G",
                           "--slurm-option=--cpus-per-task=1", "--slurm-option=workerpool1:--nodes=1", "--slurm-option=workerpool1:--gres=gpu:4")
        self.assert_code(run, 0)
        (_, chief), (node, first), (same, second) = (self.log(run, f"workerpool{name}").split() for name in ("0-0", "1-0", "1-1"))
        self.assertEqual([chief, first, second], ["2,3", "2,3", "4,5"])
        self.assertEqual(node, same)
        self.assertEqual(self.log(run, "workerpool2-0"), "none\n")
        few = self.run_job([program, {**program, "replicaCount": 2}], ENGINE, "--slurm-option=workerpool1:--nodes=1")
        self.assert_code(few, 1)
        self.assertIn("workerpool1-1 must find a host with 1 free slot and 2 free GPUs, got none: 1 host with 2 slots and 2 GPUs in all", few.err)
        self.slurm.run("scancel", other)

    @unittest.skipUnless(shutil.which("orterun") and shutil.which("mpicc.openmpi"), "needs openmpi-bin and libopenmpi-dev")
    @unittest.skipIf(os.environ.get("SUMMAND_SANITIZE"), "one tree is enough")
    def test_mpi(self):
        """Two ranks on each of two nodes make one world."""
        program = self.path("world")
        subprocess.run(["mpicc.openmpi", "-o", program, f"{SOURCE}/tests/functional/mpi/world.c"], check=True, timeout=LONG)
        run = self.run_job([pool([program]), pool([program])], ENGINE, "--success-policy=all-workers",
                           labels={"distribution": "mpi", "processes-per-replica": "2", "mpi-launcher": "openmpi"})
        self.assert_code(run, 0)
        for index in (0, 1):
            said = self.log(run, f"workerpool{index}-0")
            ranks = {int(rank) for rank in re.findall(r'"rank": (\d), "size": 4, "sum": 10, ', said)}
            self.assertEqual(ranks, {2 * index, 2 * index + 1}, said)

    def test_a_job_that_fails(self):
        run = self.run_job([bash("sleep 1; exit 7"), bash("sleep 600"), reduction_servers()], ENGINE)
        self.assert_code(run, 1)
        self.assertIn("workerpool0-0 exited with a non-zero status of 7", run.err)

    def test_two_at_once(self):
        """Each ends when it has seen the other."""
        script = f"touch {self.path('here')}.%d; until [ -e {self.path('here')}.%d ]; do sleep 0.1; done"
        runs = [self.start([bash(script % (own, other)), bash(script % (own, other))], ENGINE) for own, other in ((0, 1), (1, 0))]
        for run in runs:
            self.finish(run)
            self.assert_code(run, 0)

    def test_created_and_waited_for(self):
        spec = self.write_spec([bash("sleep 1"), bash("sleep 1")])
        os.environ["SUMMAND_STATE_DIR"] = self.path("state")
        self.addCleanup(os.environ.pop, "SUMMAND_STATE_DIR")
        done = self.slurm.run(SUMMAND, "custom-jobs", "create", spec, ENGINE, env=dict(os.environ))
        name = re.search(r"CustomJob \[(.*)\] is submitted", done.stderr).group(1)
        self.slurm.run(SUMMAND, "custom-jobs", "wait", name, env=dict(os.environ))
        self.assertIn("JOB_STATE_SUCCEEDED", self.slurm.run(SUMMAND, "custom-jobs", "describe", name, env=dict(os.environ)).stdout)

    # ---- what ends a job ----

    def test_cancelled_while_it_waits(self):
        filler = self.fill()
        run = self.start([bash("echo never"), bash("echo never")], ENGINE)
        self.assertTrue(wait_until(lambda: len(self.queue()) > 1))
        [number] = {each.split("+")[0] for each in self.queue() if "+" in each}
        time.sleep(2)
        run.send_signal(signal.SIGINT)
        self.finish(run)
        self.assert_code(run, 130)
        self.assertRegex(run.out, r"waiting for hosts: Slurm job \d+ is PENDING, (Resources|Priority|BeginTime|None)")
        self.assertEqual(set(self.states(number)), {"CANCELLED"})
        self.slurm.run("scancel", filler)

    def test_too_long_in_the_queue(self):
        filler = self.fill()
        run = self.run_job([bash("echo never"), bash("echo never")], ENGINE, scheduling={"maxWaitDuration": "2s"})
        self.assert_code(run, 1)
        self.assertIn("The job was not running within its maxWaitDuration of 2 seconds.", run.err)
        self.assertTrue(wait_until(lambda: self.queue() == [f"{filler} RUNNING"]), self.queue())
        self.slurm.run("scancel", filler)

    def test_out_of_time(self):
        run = self.run_job([bash("sleep 600"), bash("sleep 600")], ENGINE, timeout="3s")
        self.assert_code(run, 1)
        self.assertIn("3 s", run.err)

    def test_out_of_slurms_time(self):
        run = self.start([bash("echo started; sleep 600"), bash("sleep 600")], ENGINE)
        self.wait_for_line(run, "workerpool0-0", "started")
        self.slurm.run("scontrol", "update", f"jobid={self.job_number()}", "EndTime=now+2")
        self.finish(run)
        self.assert_code(run, 1)
        self.assertIn("its time limit is over", run.err)

    def test_restarted_on_the_same_hosts(self):
        script = f"echo x >> {self.path('runs')}; [ $(wc -l < {self.path('runs')}) -gt 1 ] || exit 3; sleep 1"
        run = self.start([bash(script), bash("sleep 2")], ENGINE, labels={"restart-policy": "on-failure"})
        number = self.job_number()
        self.finish(run)
        self.assert_code(run, 0)
        self.assertIn("restart 1 of", run.out)
        self.assert_completed(number, len(self.states(number)))

    # ---- an sbatch that does not come back ----

    def with_sbatch(self, script):
        """A script in sbatch's place; REAL is Slurm's."""
        os.mkdir(self.path("site"))
        with open(self.path("site/sbatch"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\nREAL={cluster.find('sbatch')}\n{script}\n")
        os.chmod(self.path("site/sbatch"), 0o755)
        return mock.patch.dict(os.environ, {"PATH": f"{self.path('site')}:{os.environ['PATH']}"})

    def test_a_slow_sbatch(self):
        """The job's number counts when its line is there."""
        with self.with_sbatch('echo Welcome; "$REAL" "$@"; exec sleep 600'):
            run = self.run_job([bash("echo started"), bash("exit 0")], ENGINE)
        self.assert_code(run, 0)

    def test_cancelled_with_a_slow_sbatch(self):
        filler = self.fill()
        with self.with_sbatch('"$REAL" "$@"; exec sleep 600'):
            run = self.start([bash("echo never"), bash("echo never")], ENGINE)
        self.assertTrue(wait_until(lambda: len(self.queue()) > 1))
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        self.finish(run, 15)
        self.assert_code(run, 130)
        self.assertEqual(self.queue(), [f"{filler} RUNNING"])
        self.slurm.run("scancel", filler)

    def test_an_sbatch_that_names_no_job(self):
        """The controller has taken it, and is late with its answer."""
        with self.with_sbatch('"$REAL" "$@" > /dev/null; echo "sbatch: error: Batch job submission failed: Socket timed out" >&2; exit 1'):
            run = self.run_job([bash("echo never"), bash("echo never")], ENGINE)
        self.assert_code(run, 1)
        self.assertIn("Slurm: Batch job submission failed: Socket timed out", run.err)
        self.assertFalse([line for line in self.queue() if "COMPLETING" not in line], "it must be cancelled")

    def test_options_that_cannot_be(self):
        """With these sbatch would not submit one job, or not say so at once."""
        for option, why in (("--wait", "summand waits for its job itself"), ("workerpool1:-W", "summand waits for its job itself"),
                            ("--quiet", "summand reads the job's number"), ("-Q", "summand reads the job's number"),
                            ("--array=1-2", "summand's job is one"), ("workerpool0:-a1-2", "summand's job is one"),
                            ("--wrap=true", "the job's script is summand's"), ("--test-only", "nothing would be submitted")):
            run = self.run_job([bash("echo never")], ENGINE, f"--slurm-option={option}")
            self.assert_code(run, 2)
            self.assertIn(f"--slurm-option: must not be {option}: {why}", run.err)

    # ---- runners that are killed ----

    def test_a_killed_runner_with_a_stubborn_replica(self):
        run = self.start([bash("trap '' TERM; echo started; while :; do sleep 0.1; done"), bash("sleep 600")], ENGINE, "--grace=2")
        self.wait_for_line(run, "workerpool0-0", "started")
        self.kill_runner(run)

    def test_a_killed_runner_in_the_queue(self):
        number = self.fill()
        run = self.start([bash("echo never"), bash("echo never")], ENGINE)
        self.assertTrue(wait_until(lambda: len(self.queue()) > 1))
        time.sleep(1)
        self.kill_runner(run, number)
        self.slurm.run("scancel", number)

    # ---- what cannot be ----

    def test_no_such_partition(self):
        self.assert_refused("Slurm: invalid partition specified: nowhere", "--slurm-partition=nowhere")

    def test_no_such_reservation(self):
        self.assert_refused("Slurm: Batch job submission failed: Requested reservation is invalid", "--slurm-reservation=none")

    def test_no_such_node(self):
        self.assert_refused("Slurm: Batch job submission failed: Invalid feature specification", "--slurm-constraint=quantum")

    def test_more_nodes_than_there_are(self):
        nine = [bash("echo never"), bash("echo never", 8)]
        self.assert_refused("partition debug must have 9 nodes, one for each replica, got 4", pools=nine)
        self.assert_refused("partition debug must have 9 nodes, one for each replica, got 4", "--slurm-option=--comment=hello", pools=nine)
        self.assert_refused("partition urgent must have 8 nodes, got 4", "--slurm-option=workerpool1:--partition=urgent", pools=nine)
        self.assert_refused("partition debug must have 7 nodes, got 4", "--slurm-option=workerpool1:--nodes=6", pools=nine)

    def test_nodes_enough_by_options(self):
        run = self.run_job([bash("exit 0"), bash("exit 0", 8)], ENGINE, "--oversubscribe", "--slurm-option=workerpool1:--nodes=2",
                           "--slurm-option=workerpool1:--ntasks-per-node=4", "--slurm-option=--cpus-per-task=1", "--slurm-option=--mem=1G")
        self.assert_code(run, 0)

    def test_no_slurm(self):
        folder = self.path("bin")
        os.mkdir(folder)
        for name in ("env", "sh", "bash", "sleep"):
            os.symlink(f"/bin/{name}", f"{folder}/{name}")
        path, os.environ["PATH"] = os.environ["PATH"], folder
        try:
            self.assert_refused("--engine=slurm: sbatch must be on PATH")
        finally:
            os.environ["PATH"] = path

    def test_an_unreachable_controller(self):
        with open(os.environ["SLURM_CONF"], encoding="utf-8") as file:
            text = re.sub(r"SlurmctldPort=\d+", f"SlurmctldPort={cluster.free_ports(1)[0]}", file.read())
        with open(self.path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(text)
        right, os.environ["SLURM_CONF"] = os.environ["SLURM_CONF"], self.path("slurm.conf")
        try:
            self.assert_refused("Unable to contact slurm controller")
        finally:
            os.environ["SLURM_CONF"] = right

    def test_an_agent_that_does_not_start(self):
        done = self.with_agent('[ "$1 $SLURMD_NODENAME" != "--host node1" ] || { echo "agent: no library" >&2; exit 4; }')
        self.assertEqual(done.returncode, 1)
        self.assertIn("host node1: agent: no library", done.stderr)

    def test_an_agent_that_is_not_there(self):
        done = self.with_agent('[ "$1 $SLURMD_NODENAME" != "--host node1" ] || exec /nowhere/summand-agent')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"host node1: .*/nowhere/summand-agent: No such file or directory")

    def test_an_agent_of_another_version(self):
        script = r"""
[ "$1 $SLURMD_NODENAME" != "--host node1" ] || { read line; sed 's/"protocol": *[0-9]*/"protocol": 99/' <<<"$line" > "$0.in"; exec %s "$@" < "$0.in"; }""" % AGENT
        done = self.with_agent(script)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"host node1: .*must speak protocol")

    def test_options_without_the_engine(self):
        run = self.run_job([bash("echo never")], "--slurm-partition=debug")
        self.assert_code(run, 2)
        self.assertIn("--slurm-partition: must come with --engine=slurm", run.err)


if __name__ == "__main__":
    cluster.require()
    if sys.argv[1:] == ["ControlGroupsTest"] and not cluster.can_track_by_cgroup():
        print("skipped: control groups cannot be made here")
        sys.exit(cluster.UNABLE)
    unittest.main()
