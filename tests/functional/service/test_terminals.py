"""Terminals in replicas over the API: of jobs that ask for them, within bounds, and gone with whoever looked."""

import base64
import json
import os
import re
import threading
import time

from served import JOBS, ServiceTest, job, wait_until

LINES = 20000


class Terminal:
    """A shell as the page has it."""

    def __init__(self, test, number, replica="workerpool0-0", rows=24, columns=80):
        self.test = test
        self.path = "/v1/" + test.ask("POST", f"{JOBS}/{number}/terminals", {"replica": replica, "rows": rows, "columns": columns})["name"]
        self.said = b""
        self.read = self.written = 0
        self.last = {}

    def look(self):
        self.last = self.test.ask("GET", f"{self.path}?offset={self.read}")
        data = base64.b64decode(self.last["data"])
        self.said += data[self.read - int(self.last["offset"]):]
        self.read = int(self.last["offset"]) + len(data)

    def write(self, keys, status=200):
        body = {"offset": str(self.written), "data": base64.b64encode(keys).decode()}
        answer = self.test.ask("POST", self.path + ":write", body, status)
        self.written += len(keys) if status == 200 else 0
        return answer

    def wait_for(self, text):
        while text not in self.said:
            assert not self.last.get("hasEnded"), (self.said, self.last)
            self.look()
        self.said = self.said.partition(text)[2]

    def wait(self):
        while not self.last.get("hasEnded"):
            self.look()
        return self.last


class Terminals(ServiceTest):
    def setUp(self):
        super().setUp()
        home = os.environ["HOME"]
        os.environ["HOME"] = self.dir       # shells have no start files
        self.addCleanup(os.environ.update, HOME=home)

    def begin(self, script="sleep 300", **spec):
        made = self.ask("POST", JOBS, job(script, enableWebAccess=True, **spec))
        number = made["name"].rsplit("/", 1)[1]
        self.await_state(number, "JOB_STATE_RUNNING")
        wait_until(lambda: "webAccessUris" in self.ask("GET", f"{JOBS}/{number}"))
        return number

    def test_a_shell(self):
        self.serve()
        number = self.begin()
        path = f"{JOBS}/{number}".removeprefix("/v1/")
        uris = {"workerpool0-0": f"{self.service.url}/#/{path}/terminal/workerpool0-0"}
        self.assertEqual(self.ask("GET", f"{JOBS}/{number}")["webAccessUris"], uris)
        self.assertEqual(self.ask("GET", JOBS)["customJobs"][0]["webAccessUris"], uris)
        other = {"Host": f"localhost:{self.service.port}"}
        self.assertIn("http://localhost:", self.ask("GET", f"{JOBS}/{number}", headers=other)["webAccessUris"]["workerpool0-0"])
        shell = Terminal(self, number, rows=33, columns=101)
        shell.write(b"stty size; echo $SUMMAND_REPLICA $TERM\r")
        shell.wait_for(b"33 101\r\nworkerpool0-0 xterm-256color\r\n")
        shell.written -= 5      # what has come is sent again, with more behind it
        shell.write(b"TERM\recho on\"\"ce\r")
        shell.wait_for(b"once\r\n")
        self.assertNotIn(b"TERM: ", shell.said)
        self.ask("POST", shell.path + ":resize", {"rows": 40, "columns": 99})
        shell.write(b"stty size\r")
        shell.wait_for(b"40 99\r\n")
        shell.write(f"seq {LINES}; echo the e\"\"nd\r".encode())   # more than is kept
        shell.wait_for(b"the end\r\n")
        shell.write(b"exit 7\r")
        self.assertEqual(shell.wait()["exitCode"], 7)
        self.ask("DELETE", shell.path)
        self.fails("GET", shell.path, None, 404, "NOT_FOUND")

    def test_all_output_comes_in_its_order(self):
        self.serve()
        shell = Terminal(self, self.begin())
        shell.write(b"echo be\"\"gin\r")
        shell.wait_for(b"begin\r\n")
        shell.said = b""
        shell.write(f"seq {LINES}; echo the e\"\"nd\r".encode())
        while b"the end\r\n" not in shell.said:
            shell.look()
        lines = re.sub(rb"\x1b\[[?0-9]*[a-z]|(?<!\n)\r(?!\n)", b"", shell.said).split(b"\r\n")
        self.assertEqual([line for line in lines if line.isdigit()], [b"%d" % i for i in range(1, LINES + 1)])

    def test_requests_that_wait(self):
        """One of them gets what comes; an earlier one is answered at once."""
        self.serve()
        shell = Terminal(self, self.begin())
        shell.write(b"echo be\"\"gin\r")
        shell.wait_for(b"begin\r\n")
        time.sleep(0.2)
        answers = []
        waits = [threading.Thread(target=lambda: answers.append(self.ask("GET", f"{shell.path}?offset={shell.read}")["data"])) for _ in range(2)]
        for each in waits:
            each.start()
            time.sleep(0.3)
        shell.write(b"echo x\r")
        for each in waits:
            each.join()
        self.assertEqual(len(answers), 2)   # each, whatever of the prompt was in it

    def test_the_end_of_the_replica_and_of_the_service(self):
        self.serve()
        go = os.path.join(self.dir, "go")
        number = self.begin(f"until [ -e {go} ]; do sleep 0.1; done")
        shell = Terminal(self, number)
        shell.write(b"echo $$ >" + os.path.join(self.dir, "pid").encode() + b"; echo w\"\"ell\r")
        shell.wait_for(b"well")
        open(go, "w", encoding="ascii").close()
        self.assertEqual(shell.wait()["exitCode"], 137)
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertNotIn("webAccessUris", self.ask("GET", f"{JOBS}/{number}"))
        error = self.fails("POST", f"{JOBS}/{number}/terminals", {"replica": "workerpool0-0", "rows": 1, "columns": 1}, 400, "FAILED_PRECONDITION")
        self.assertIn("must run", error["message"])
        number = self.begin()
        shell = Terminal(self, number)
        shell.write(b"echo $$ >" + os.path.join(self.dir, "pid").encode() + b"; echo w\"\"ell\r")
        shell.wait_for(b"well")
        with open(os.path.join(self.dir, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        threading.Timer(0.5, self.service.end).start()      # while a request waits
        status, text = 200, b""
        while status == 200:
            connection = self.connect()
            connection.request("GET", f"{shell.path}?offset={shell.read}")
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
            shell.read += len(base64.b64decode(json.loads(text).get("data", "")))
            connection.close()
        self.assertEqual(status, 503)
        self.assertIn(b"being ended", text)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{pid}")))
        self.service.process.wait()

    def test_refusals(self):
        self.serve()
        plain = self.create("sleep 300")
        self.await_state(plain, "JOB_STATE_RUNNING")
        wanted = {"replica": "workerpool0-0", "rows": 24, "columns": 80}
        error = self.fails("POST", f"{JOBS}/{plain}/terminals", wanted, 400, "FAILED_PRECONDITION")
        self.assertIn("enableWebAccess", error["message"])
        self.assertNotIn("webAccessUris", self.ask("GET", f"{JOBS}/{plain}"))
        number = self.begin()
        path = f"{JOBS}/{number}/terminals"
        for body in ({}, {**wanted, "rows": 0}, {**wanted, "columns": 10001}, {**wanted, "more": 1}, {**wanted, "rows": "1"}, []):
            self.fails("POST", path, body, 400, "INVALID_ARGUMENT")
        self.fails("POST", f"{JOBS}/1/terminals", wanted, 404, "NOT_FOUND")
        self.fails("POST", path, wanted, 403, "PERMISSION_DENIED", {"Origin": "http://evil.example"})
        self.fails("POST", path, wanted, 415, "INVALID_ARGUMENT", {"Content-Type": "text/plain"})
        for replica in "workerpool0-9", "workerpool0", "workerpool0-0.9", "", "../x":
            error = self.fails("POST", path, {**wanted, "replica": replica}, 404, "NOT_FOUND")
            self.assertIn(replica + ": the job has no replica of that name", error["message"])
        shell = Terminal(self, number)
        self.fails("GET", shell.path.replace(number, plain), None, 404, "NOT_FOUND")
        self.fails("GET", shell.path[:-1], None, 404, "NOT_FOUND")
        self.fails("GET", shell.path + "?offset=100000000", None, 400, "INVALID_ARGUMENT")
        self.fails("GET", shell.path + "?offset=-1", None, 400, "INVALID_ARGUMENT")
        for body in ({"offset": "1", "data": ""}, {"offset": "0", "data": "!"}, {"offset": 1, "data": ""}, {"offset": -1, "data": ""},
                     {"offset": 0.5, "data": ""}, {"offset": [], "data": ""}, {"data": ""}, {"offset": "0", "data": "", "more": 1}):
            self.fails("POST", shell.path + ":write", body, 400, "INVALID_ARGUMENT")
        self.fails("POST", shell.path + ":resize", {"rows": 0, "columns": 1}, 400, "INVALID_ARGUMENT")
        self.ask("POST", shell.path + ":write", {"offset": 0, "data": ""})
        shell.write(b"stty raw -echo; echo re\"\"ady; sleep 1000\r")
        shell.wait_for(b"ready")
        refused = 0
        for _ in range(8):      # nobody reads it
            body = {"offset": str(shell.written), "data": base64.b64encode(b"x" * 32768).decode()}
            connection = self.connect()
            connection.request("POST", shell.path + ":write", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            refused += answer.status == 429
            shell.written += 32768 if answer.status == 200 else 0
        self.assertGreater(refused, 0)
        others = [Terminal(self, number) for _ in range(32 - 1)]
        error = self.fails("POST", path, wanted, 429, "RESOURCE_EXHAUSTED")
        self.assertIn("32 terminals", error["message"])
        self.ask("DELETE", others[0].path)
        Terminal(self, number)

    def test_a_token(self):
        token = os.path.join(self.dir, "token")
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("sesame\n")
        self.serve("--token-file=" + token, *self.FLAGS)
        own = {"Authorization": "Bearer sesame"}
        number = self.ask("POST", JOBS, job("sleep 300", enableWebAccess=True), headers=own)["name"].rsplit("/", 1)[1]
        wait_until(lambda: "webAccessUris" in self.ask("GET", f"{JOBS}/{number}", headers=own))
        wanted = {"replica": "workerpool0-0", "rows": 24, "columns": 80}
        self.fails("POST", f"{JOBS}/{number}/terminals", wanted, 401, "UNAUTHENTICATED")
        path = "/v1/" + self.ask("POST", f"{JOBS}/{number}/terminals", wanted, headers=own)["name"]
        self.fails("GET", path, None, 401, "UNAUTHENTICATED")
        self.fails("POST", path + ":write", {"offset": "0", "data": ""}, 401, "UNAUTHENTICATED")
        self.fails("DELETE", path, None, 401, "UNAUTHENTICATED")
        self.ask("GET", path, headers=own)


if __name__ == "__main__":
    import unittest
    unittest.main(verbosity=2)
