"""`summand custom-jobs` and `hp-tuning-jobs` with a service: the verbs say of its jobs what they say of jobs of this machine, and
several jobs are cancelled and deleted at once, here and there."""

import json
import os
import re
import socket
import subprocess
import threading
import unittest

from served import JOBS, LONG, SUMMAND, ServiceTest, job, wait_until

POOL = "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,container-image-uri=local"


class FalseService(threading.Thread):
    """Gives one answer, byte for byte, to each that asks."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.asked = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                try:
                    self.asked.append(connection.recv(65536))  # no request of these is longer
                    connection.sendall(self.answer)
                except OSError:
                    pass

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.join(LONG)


class CommandLine(ServiceTest):
    def run_at(self, service, *words, code=0, group="custom-jobs", **variables):
        """A command on a machine that has no jobs of its own."""
        env = dict(os.environ, SUMMAND_STATE_DIR=os.path.join(self.dir, "elsewhere"), TZ="UTC", **variables)
        if service:
            env["SUMMAND_SERVICE"] = service.url
        run = subprocess.run([SUMMAND, group, *words], env=env, capture_output=True, text=True, timeout=LONG, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.err = run.stderr
        return run.stdout

    def there(self, *words, **options):
        return self.run_at(self.service, *words, CLOUDSDK_CORE_PROJECT="demo", **options)

    def here(self, *words, code=0, group="custom-jobs"):
        """On the service's own machine."""
        run = subprocess.run([SUMMAND, group, *words], env=dict(self.env, TZ="UTC"), capture_output=True, text=True, timeout=LONG,
                             check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.err = run.stderr
        return run.stdout

    def test_a_job_from_its_creation_to_its_deletion(self):
        self.serve()
        name = self.there("create", "--display-name=far", POOL, "--command=sh", "--args=-c,echo hello; echo trouble >&2", "--region=us-central1",
                          "--format=value(name)").strip()
        self.assertRegex(name, r"^projects/demo/locations/us-central1/customJobs/\d{19}$")
        self.assertIn(f"CustomJob [{name}] is submitted successfully.", self.err)
        number = name.rsplit("/", 1)[1]
        self.assertEqual(self.there("wait", "far"), "")
        self.assertIn(f"{number}: JOB_STATE_SUCCEEDED", self.err)
        self.here("wait", number)
        for words in (["list"], ["list", "--format=value(state,displayName)"], ["stream-logs", number],
                      ["list", "--filter=state=SUCCEEDED AND displayName:fa"], ["list", "--format=csv(displayName,endTime)"],
                      ["describe", number, "--format=value(state,createTime,startTime,endTime,labels)"],
                      ["stream-logs", number, "--task-name=workerpool0-0"]):
            self.assertEqual(self.there(*words), self.here(*words), words)
        self.assertRegex(self.there("stream-logs", "far"), r"\tworkerpool0-0\thello\n")
        described = json.loads(self.there("describe", name, "--format=json"))
        self.assertEqual(described, self.ask("GET", f"/v1/{name}"))
        self.assertEqual(self.there("list", "--uri").strip(), name)
        self.assertEqual(self.there("list", "--region=elsewhere"), "")
        self.assertEqual(self.there("list", "--project=other"), "")
        self.there("delete", "far")
        self.assertEqual(self.err, "Deleted CustomJob [far].\n")
        self.there("describe", "far", code=1)
        self.assertIn("there is no such job", self.err)
        self.assertIn(self.service.url, self.err)
        self.assertEqual(self.run_at(None, "list"), "")  # nothing has become a job of the machine that asked

    def test_a_job_that_fails_or_is_cancelled(self):
        self.serve()
        self.there("create", "--display-name=bad", POOL, "--command=sh", "--args=-c,echo no such file >&2; exit 3", "--region=here")
        self.there("wait", "bad", code=1)
        self.assertIn("JOB_STATE_FAILED", self.err)
        self.assertIn("workerpool0-0", self.err)
        self.there("create", "--display-name=long", POOL, "--command=sh", "--args=-c,echo begun; sleep 300", "--region=here")
        with subprocess.Popen([SUMMAND, "custom-jobs", "stream-logs", "long", "--project=demo", f"--service={self.service.url}"],
                              env=dict(os.environ, SUMMAND_STATE_DIR=self.dir), stdout=subprocess.PIPE, text=True) as follower:
            self.assertTrue(any("begun" in line for line in follower.stdout), "lines come while the job runs")
            self.there("wait", "long", "--timeout=1", code=124)
            self.there("cancel", "long")
            self.assertIn("Request to cancel CustomJob [projects/demo/locations/here/customJobs/", self.err)
            self.assertEqual(follower.wait(LONG), 0)
        self.there("wait", "long", code=1)
        self.assertIn("JOB_STATE_CANCELLED", self.err)
        self.there("create", "--display-name=x", "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/none/here", code=1)
        self.assertIn("worker_pool_specs[0]", self.err)
        for words in (["prune"], ["scale", "bad", "--replicas=2"]):
            self.there(*words, code=2)
            self.assertIn("where the job runs", self.err)

    def test_a_tuning_job(self):
        self.serve()
        config = os.path.join(self.dir, "tuning.json")
        script = ('mkdir -p ${CLOUD_ML_HP_METRIC_FILE%/*}; echo \'{"timestamp":1,"trial":"\'$CLOUD_ML_TRIAL_ID\'","loss":"0.5",'
                  '"global_step":"1","checkpoint_path":""}\' >$CLOUD_ML_HP_METRIC_FILE')
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"displayName": "tuned", "maxTrialCount": 2, "parallelTrialCount": 2,
                       "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                                     "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]},
                       "trialJobSpec": job(script)["jobSpec"]}, file)
        self.there("create", config, group="hp-tuning-jobs")
        self.there("wait", "tuned", group="hp-tuning-jobs")
        trials = json.loads(self.there("describe", "tuned", "--format=json", group="hp-tuning-jobs"))["trials"]
        self.assertEqual([trial["state"] for trial in trials], ["SUCCEEDED"] * 2)
        self.assertEqual(self.there("list", group="hp-tuning-jobs"), self.here("list", group="hp-tuning-jobs"))
        self.assertEqual(self.there("list"), "")

    def test_a_name_is_looked_for_by_the_service(self):
        """In one question, and not through all its jobs."""
        self.serve()
        for name in "alpha", "alpha-2", "Alpha", 'al"p\\ha*':
            self.create("true", name)
        described = lambda word, **more: self.there("describe", word, "--format=value(displayName)", **more).strip()
        self.assertEqual(described("alpha"), "alpha")  # not alpha-2, which begins with it, nor Alpha
        self.assertEqual(described("alpha-"), "alpha-2")
        self.assertEqual(described('al"p\\ha*'), 'al"p\\ha*')
        number = self.there("list", "--filter=displayName=Alpha", "--format=value(name.basename())").strip()
        self.assertEqual(described(number[:15]), "Alpha")
        self.there("describe", "alp", code=1)
        self.assertIn("2 jobs fit", self.err)
        page = b'{"customJobs": []}'
        false = FalseService(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                             % (len(page), page))
        self.addCleanup(false.end)
        self.run_at(false, "describe", "alpha", code=1)
        self.assertEqual(len(false.asked), 1)
        self.assertIn(b"filter=displayName:%22alpha%2A%22%20OR%20name:%22customJobs/alpha%22", false.asked[0])

    def test_help_says_of_which_service_and_place_once(self):
        for verb in ("list", "describe", "cancel", "delete", "stream-logs", "wait", "exec", "scale"):
            said = subprocess.run([SUMMAND, "custom-jobs", verb, "--help"], capture_output=True, text=True, check=True, timeout=LONG).stdout
            service, _, others = said.partition("\nService:\n")[2].partition("\nAccepted, without effect here:\n")
            for option in ("--service=URL", "--project=PROJECT", "--region=REGION"):
                self.assertEqual((said.count(option), service.count(option)), (1, 1), said)
            self.assertIn("--billing-project=PROJECT", others)

    def test_options_that_mean_nothing_there_are_refused(self):
        self.serve()
        for option in ("--job-dir=x", "--container-runtime=podman", "--oversubscribe", "--grace=30", "--ready-timeout=9", "--log-limit=1M",
                       "--secrets=x", "--engine=ssh", "--hostfile=x", "--host-timeout=15", "--slurm-partition=x"):
            self.there("create", "--display-name=x", POOL, "--command=true", option, code=2)
            self.assertRegex(self.err, rf"^summand: {option.partition('=')[0]}: must be without --service: ")
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})

    def test_several_jobs_at_once(self):
        self.serve()
        for ask in (self.there, self.here):
            for i in range(4):
                self.create("sleep 300", f"several-{i}", {"team": "blue" if i % 2 else "red"})
            ask("cancel", "--filter=labels.team=blue")
            self.assertEqual(len(re.findall("Request to cancel", self.err)), 2)
            ask("cancel", "several-0", "nosuch", "several-2", code=1)
            self.assertEqual(len(re.findall("Request to cancel", self.err)), 2)
            self.assertIn("nosuch", self.err)
            self.assertTrue(wait_until(lambda: {one["state"] for one in self.ask("GET", JOBS)["customJobs"]} == {"JOB_STATE_CANCELLED"}))
            ask("cancel", "--filter=labels.team=blue")  # those that have ended are not asked again
            self.assertIn("No job fits that has not ended.", self.err)
            running = self.create("sleep 300", "stays", {"team": "blue"})
            ask("delete", "--filter=labels.team=blue")
            self.assertEqual(len(re.findall("Deleted CustomJob", self.err)), 2)
            ask("delete", "several-0", "several-2")
            self.assertEqual([one["displayName"] for one in self.ask("GET", JOBS)["customJobs"]], ["stays"])
            ask("cancel", running)
            self.await_state(running, "JOB_STATE_CANCELLED")
            ask("delete", running)
            for words in ([], ["--filter="], ["x", "--filter=state=FAILED"], ["--filter=nosuch=1"]):
                ask("delete", *words, code=2)

    def answers(self, answer, code):
        service = FalseService(answer)
        try:
            return self.run_at(service, "list", "--format=value(displayName)", code=code)
        finally:
            service.end()

    def test_answers_of_others_than_services(self):
        body = json.dumps({"customJobs": [{"name": "projects/p/locations/l/customJobs/1234567890123456789", "displayName": "it",
                                           "state": "JOB_STATE_RUNNING", "createTime": "2026-01-31T12:00:00Z",
                                           "updateTime": "2026-01-31T12:00:00Z"}]}).encode()
        head = b"HTTP/1.1 200 OK\r\n"
        pieces = b"".join(b"%x;note=1\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
        for whole in (head + b"\r\n" + body, head + b"content-length:%d\r\n\r\n" % len(body) + body + b"more",
                      head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"):
            self.assertEqual(self.answers(whole, 0), "it\n")
        for wrong in (b"", b"\0" * 100, b"HTTP/1.1 200 OK", b"SSH-2.0-OpenSSH\r\n\r\n", head + b"Content-Length: 9999\r\n\r\n" + body,
                      head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces, head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
                      head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n", head + b"\r\n[]", head + b"\r\n{", head + b"X" * 200000,
                      b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", head + b'\r\n{"customJobs": [1]}',
                      head + b'\r\n{"customJobs": [{"name": "x/1"}]}', b"HTTP/1.1 500 No\r\n\r\n<html>"):
            self.answers(wrong, 1)
            self.assertRegex(self.err, "summand: .*must")
        self.answers(b'HTTP/1.1 403 No\r\n\r\n{"error": {"message": "not for \\u001b[31myou"}}', 1)
        self.assertIn("not for ", self.err)
        self.assertNotIn("\x1b", self.err)

    def test_who_asks_needs_what_the_service_asks_for(self):
        token = os.path.join(self.dir, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("sesame\n")
        os.chmod(token, 0o600)
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.dir, check=True, capture_output=True, timeout=LONG)
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        for name, subject in (("ours", "IP:127.0.0.1"), ("others", "DNS:elsewhere.example")):
            openssl("req", "-x509", *curve, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName={subject}")
        path = lambda name: os.path.join(self.dir, name)
        self.serve("--listen=127.0.0.1:0", f"--token-file={token}", f"--tls-cert={path('ours.pem')}", f"--tls-key={path('ours.key')}")
        right = {"SUMMAND_SERVICE_TOKEN_FILE": token, "SUMMAND_SERVICE_CA": path("ours.pem")}
        self.assertEqual(self.run_at(self.service, "list", **right), "")
        self.assertEqual(self.err, "Listed 0 items.\n")
        for change, said in (({"SUMMAND_SERVICE_TOKEN_FILE": ""}, "token"), ({"SUMMAND_SERVICE_CA": ""}, "TLS"),
                             ({"SUMMAND_SERVICE_CA": path("others.pem")}, "TLS"), ({"SUMMAND_SERVICE_TOKEN_FILE": "/nowhere"}, "nowhere"),
                             ({"SUMMAND_SERVICE_CA": "/nowhere"}, "nowhere"), ({"SUMMAND_SERVICE_CERT": path("ours.pem")}, "together")):
            self.run_at(self.service, "list", code=1, **{**right, **change})
            self.assertIn(said, self.err)
            self.assertNotIn("sesame", self.err)
        self.service.end()
        self.serve("--listen=127.0.0.1:0", f"--tls-cert={path('others.pem')}", f"--tls-key={path('others.key')}")
        self.run_at(self.service, "list", code=1, SUMMAND_SERVICE_CA=path("others.pem"))  # a certificate, and of another name
        self.assertIn("IP address mismatch", self.err)
        self.service.end()
        self.run_at(self.service, "list", code=1)
        self.assertIn("refused", self.err)
        for url in ("nonsense", "http://", "http://a b/", "ftp://127.0.0.1", "http://u@127.0.0.1"):
            self.run_at(None, "list", f"--service={url}", code=1)
            self.assertIn("must be http://", self.err)
        self.run_at(self.service, "list", "--project=a/b", code=1)


if __name__ == "__main__":
    unittest.main()
