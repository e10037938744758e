"""A webhook is told of each change of a job's state, once it listens: signed, in order, whatever is killed in between."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import unittest

from served import JOBS, LONG, SUMMAND, ServiceTest, job, wait_until

SECRET = "open-sesame-0123456789"


class Receiver(http.server.ThreadingHTTPServer):
    """Answers with the statuses that it is given, then with 200; has what it was told."""

    daemon_threads = True

    def __init__(self, statuses=(), port=0):
        super().__init__(("127.0.0.1", port), Receipt)
        self.statuses = list(statuses)
        self.asked = []  # every request
        self.told = []  # those that were taken
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook?to=us"

    def end(self):
        self.shutdown()
        self.server_close()
        self.thread.join(LONG)


class Receipt(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = {"path": self.path, "headers": dict(self.headers), "body": body, "time": time.time()}
        self.server.asked.append(request)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.told.append(request)
        self.send_response(status)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.server.asked.append({"path": self.path, "headers": dict(self.headers), "body": b""})
        self.send_response(200)
        self.end_headers()

    def log_message(self, format, *args):
        pass


class Webhook(ServiceTest):
    def setUp(self):
        super().setUp()
        self.secret = os.path.join(self.dir, "secret")
        with open(self.secret, "w", encoding="utf-8") as file:
            file.write(SECRET + "\n")
        os.chmod(self.secret, 0o600)

    def receive(self, *statuses, port=0):
        receiver = Receiver(statuses, port)
        self.addCleanup(receiver.end)
        return receiver

    def flags(self, url):
        return (*self.FLAGS, f"--webhook={url}", f"--webhook-secret-file={self.secret}")

    def states(self, receiver, number):
        found = []
        for request in receiver.told:
            data = json.loads(request["body"])["data"]
            if data["name"].endswith("/" + number):
                found.append(data["state"])
        return found

    def await_end(self, receiver, number, state="JOB_STATE_SUCCEEDED"):
        self.assertTrue(wait_until(lambda: state in self.states(receiver, number)), self.service.said())
        return self.states(receiver, number)

    def verify(self, request):
        """As Standard Webhooks says."""
        headers = {name.lower(): value for name, value in request["headers"].items()}
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request["body"]
        wanted = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
        self.assertEqual(headers["webhook-signature"], "v1," + wanted)
        self.assertLess(abs(int(headers["webhook-timestamp"]) - time.time()), LONG)
        self.assertEqual(headers["content-type"], "application/json")
        return headers["webhook-id"]

    def test_each_state_is_told_once_and_signed(self):
        receiver = self.receive()
        self.serve(*self.flags(receiver.url))
        number = self.create("echo no such file >&2; exit 3", "told", {"team": "blue"})
        states = self.await_end(receiver, number, "JOB_STATE_FAILED")
        self.assertEqual(states, ["JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_FAILED"])
        ids = [self.verify(request) for request in receiver.told]
        self.assertEqual(len(set(ids)), 4)
        self.assertEqual({request["path"] for request in receiver.told}, {"/hook?to=us"})
        last = json.loads(receiver.told[-1]["body"])
        self.assertEqual(last["type"], "job.state_changed")
        described = self.ask("GET", f"{JOBS}/{number}")
        self.assertEqual(last["data"], {key: described[key] for key in last["data"]})
        self.assertEqual(last["data"]["labels"], {"team": "blue"})
        self.assertIn("no such file", last["data"]["error"]["message"])
        here = subprocess.run([SUMMAND, "custom-jobs", "create", "--display-name=here", "--format=value(name)", "--worker-pool-spec="
                               "machine-type=n1-standard-4,container-image-uri=local", "--command=true"], env=self.env,
                              capture_output=True, text=True, timeout=LONG, check=True).stdout.strip()
        self.await_end(receiver, here.rsplit("/", 1)[1])
        self.assertNotIn(SECRET, self.service.said())

    def test_what_is_refused_is_told_again_in_order_after_a_pause(self):
        receiver = self.receive(503, 302, 500)
        self.serve(*self.flags(receiver.url))
        number = self.create("true")
        states = self.await_end(receiver, number)
        self.assertEqual(states, ["JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"])
        self.assertEqual(len(receiver.asked), 7, "no redirect is followed")
        first = [request for request in receiver.asked if b"QUEUED" in request["body"]]
        pauses = [after["time"] - before["time"] for before, after in zip(first, first[1:])]
        self.assertEqual(len(pauses), 3)
        self.assertLess(sum(pauses[:1]), pauses[2], "pauses grow")
        self.assertEqual(len({self.verify(request) for request in first}), 1, "a receiver can tell that it is the same")

    def test_nothing_is_lost_while_nobody_listens_and_whatever_is_killed(self):
        receiver = self.receive()
        port, url = receiver.server_port, receiver.url
        receiver.end()
        self.serve(*self.flags(url))
        number = self.create("true")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        sender = wait_until(lambda: self.senders())
        os.kill(sender[0], signal.SIGKILL)
        self.service.end(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not self.senders()), "the sender ends with its service")
        other = None
        self.serve(*self.FLAGS)  # nothing is noted down without a webhook
        other = self.create("true")
        self.await_state(other, "JOB_STATE_SUCCEEDED")
        self.service.end(signal.SIGKILL)
        receiver = self.receive(port=port)
        self.serve(*self.flags(url))
        states = self.await_end(receiver, number)
        self.assertEqual(states, ["JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"])
        self.assertEqual(self.states(receiver, other), [])
        self.assertEqual(self.service.end(signal.SIGTERM), 0)
        self.assertEqual(self.senders(), [])

    def senders(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if f"--secret-file={self.secret}".encode() in words:
                found.append(int(pid))
        return found

    def test_flags_belong_together(self):
        for flags in (["--webhook=http://127.0.0.1:1/"], [f"--webhook-secret-file={self.secret}"],
                      ["--webhook=ftp://127.0.0.1/", f"--webhook-secret-file={self.secret}"],
                      ["--webhook=http://user@127.0.0.1/", f"--webhook-secret-file={self.secret}"],
                      ["--webhook=http://a b/", f"--webhook-secret-file={self.secret}"],
                      ["--webhook=http://127.0.0.1:99999/", f"--webhook-secret-file={self.secret}"],
                      ["--webhook=http://127.0.0.1/\r\nX: y", f"--webhook-secret-file={self.secret}"],
                      ["--webhook=http://127.0.0.1/", "--webhook-secret-file=/nowhere"]):
            run = subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0", *flags], env=self.env, capture_output=True, text=True,
                                 timeout=LONG, check=False)
            self.assertEqual(run.returncode, 2, (flags, run.stderr))

    def test_a_job_cannot_name_a_receiver(self):
        receiver, stranger = self.receive(), self.receive()
        self.serve(*self.flags(receiver.url))
        number = self.create("true", labels={"webhook": "stranger"})
        self.fails("POST", JOBS, {**job(), "webhook": stranger.url}, 400, "INVALID_ARGUMENT")
        self.fails("POST", JOBS, job(labels={"summand-webhook": "x"}), 400, "INVALID_ARGUMENT")
        self.await_end(receiver, number)
        self.assertEqual(stranger.asked, [])


if __name__ == "__main__":
    unittest.main()
