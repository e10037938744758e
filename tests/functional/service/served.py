"""A service of a test's own, and plain HTTP to it."""

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

SUMMAND = os.path.join(os.environ.get("SUMMAND_BUILD", "build"), "bin", "summand")
LONG = 120  # seconds: nothing here takes that long unless it hangs
PLACE = "/v1/projects/demo/locations/us-central1"
JOBS = PLACE + "/customJobs"
ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


def wait_until(condition, seconds=LONG):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.05)


def pool(script, machine="n1-standard-4", replicas=1, **more):
    container = {"imageUri": "local", "command": ["bash", "-c", script]}
    return {"replicaCount": replicas, "machineSpec": {"machineType": machine}, "containerSpec": container, **more}


def job(script="true", name="served", labels=None, machine="n1-standard-4", **spec):
    return {"displayName": name, "labels": labels or {}, "jobSpec": {"workerPoolSpecs": [pool(script, machine)], **spec}}


def processes_of(number):
    """The guard and the runner: both have the command line that the service gave them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if f"--id={number}".encode() in words:
            found.append(int(pid))
    return found


class Service:
    """summand serve, in a process."""

    def __init__(self, state, *flags, env=None):
        self.state = state
        self.env = dict(env or os.environ, SUMMAND_STATE_DIR=state)
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([SUMMAND, "serve", "--listen=127.0.0.1:0", *flags], env=self.env, text=True,
                                        stdout=subprocess.PIPE, stderr=self.log)
        ready, _, _ = select.select([self.process.stdout], [], [], LONG)
        line = self.process.stdout.readline() if ready else ""
        if "listening on" not in line:
            raise AssertionError(f"the service must listen, said {line!r} and {self.said()!r}")
        self.url = line.split()[-1]
        self.host, port = self.url.split("//")[1].rsplit(":", 1)
        self.port = int(port)

    def said(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def end(self, signo=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signo)
        code = self.process.wait(timeout=LONG)
        self.process.stdout.close()
        return code


class ServiceTest(unittest.TestCase):
    FLAGS = ("--cpus=64", "--memory=512G", "--gpus=8", "--ready-timeout=120")

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.state = os.path.join(self.dir, "state")
        self.env = dict(os.environ, SUMMAND_STATE_DIR=self.state)
        self.services = []
        self.addCleanup(self.end_all)

    def end_all(self):
        if os.path.isdir(self.state):
            listed = subprocess.run([SUMMAND, "custom-jobs", "list", "--format=value(name.basename())", "--filter=-endTime:*"],
                                    env=self.env, capture_output=True, text=True, timeout=LONG, check=False)
            for number in listed.stdout.split():
                subprocess.run([SUMMAND, "custom-jobs", "cancel", number], env=self.env, capture_output=True, timeout=LONG,
                               check=False)
                subprocess.run([SUMMAND, "custom-jobs", "wait", number], env=self.env, capture_output=True, timeout=LONG,
                               check=False)
        for service in self.services:
            was_there = service.process.poll() is None
            code = service.end()
            said = service.said()
            service.log.close()
            self.assertTrue(code == 0 or not was_there, said)  # sanitizers have had their say

    def serve(self, *flags):
        self.service = Service(self.state, *(flags or self.FLAGS))
        self.services.append(self.service)
        return self.service

    def connect(self):
        return http.client.HTTPConnection(self.service.host, self.service.port, timeout=LONG)

    def ask(self, method, path, body=None, status=200, headers=None):
        """The answer's document."""
        connection = self.connect()
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})} if data else headers or {})
        answer = connection.getresponse()
        text = answer.read()
        self.answer = answer
        connection.close()
        self.assertEqual(answer.status, status, f"{method} {path}: {text[:2000]!r}")
        self.assertEqual(answer.getheader("Content-Type"), "application/json; charset=UTF-8")
        return json.loads(text)

    def create(self, *args, **options):
        """The id of a job."""
        made = self.ask("POST", JOBS, job(*args, **options))
        return made["name"].rsplit("/", 1)[1]

    def state_of(self, number):
        return self.ask("GET", f"{JOBS}/{number}")["state"]

    def await_state(self, number, *states):
        found = wait_until(lambda: (lambda state: state if state in states + ENDED else None)(self.state_of(number)))
        described = self.ask("GET", f"{JOBS}/{number}")
        self.assertIn(found, states, described)
        return described

    def fails(self, method, path, body, status, code, headers=None):
        """The error that is answered."""
        error = self.ask(method, path, body, status, headers)["error"]
        self.assertEqual((error["code"], error["status"]), (status, code), error)
        self.assertTrue(error["message"])
        return error

    def raw(self, data):
        """What bytes are answered, up to the end of the connection; a service may end it before it has read all."""
        answer = b""
        with socket.create_connection((self.service.host, self.service.port), timeout=LONG) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while True:
                    piece = connection.recv(65536)
                    if not piece:
                        break
                    answer += piece
            except OSError:
                pass
        return answer
