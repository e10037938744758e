"""Services and runners that are killed at any point: no accepted job is lost, none runs twice."""

import datetime
import json
import os
import random
import signal
import subprocess
import threading
import time
import unittest

from served import ENDED, JOBS, LONG, PLACE, SUMMAND, Service, ServiceTest, job, processes_of, wait_until

SEED = int(os.environ.get("SUMMAND_SEED", "20"))


class Killed(ServiceTest):
    FLAGS = ("--cpus=8", "--memory=512G", "--gpus=0")

    def again(self, *flags):
        return self.serve(*flags)

    def test_a_loop_of_kills_while_jobs_are_created(self):
        chance = random.Random(SEED)
        runs = os.path.join(self.dir, "runs")
        os.mkdir(runs)
        accepted, lock, over = {}, threading.Lock(), threading.Event()
        self.serve()

        def client(number):
            turn = 0
            while not over.is_set() and turn < 12:
                name = f"job-{number}-{turn}"
                try:
                    made = self.post(job(f"mktemp {runs}/{name}.XXXXXX", name))
                except (OSError, ValueError):
                    time.sleep(0.02)  # nobody is there just now
                    continue
                with lock:
                    accepted[made["name"].rsplit("/", 1)[1]] = name
                turn += 1

        clients = [threading.Thread(target=client, args=(i,)) for i in range(3)]
        for one in clients:
            one.start()
        for _ in range(8):
            time.sleep(chance.uniform(0.02, 0.3))
            self.service.end(signal.SIGKILL)
            self.again()
        over.set()
        for one in clients:
            one.join(LONG)
        self.assertGreater(len(accepted), 0)
        self.assertTrue(wait_until(lambda: self.all_ended(), 4 * LONG), self.listed())
        found = self.listed()
        for number, name in accepted.items():
            self.assertEqual(found.get(number, (None, None))[0], name, "an accepted job must not be lost")
            self.assertEqual(found[number][1], "JOB_STATE_SUCCEEDED", found[number])
        # One that was stored and not answered may be there twice, under two ids; none of them has run twice.
        made = sorted(os.listdir(runs))
        self.assertEqual(len(made), len(found), "each job must have run once")

    def post(self, body):
        connection = self.connect()
        try:
            connection.request("POST", JOBS, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except Exception as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(text)
        return json.loads(text)

    def listed(self):
        """Name and state of each job by its id."""
        found, token = {}, ""
        while token is not None:
            page = self.ask("GET", f"{JOBS}?pageSize=1000&pageToken={token}")
            found.update({one["name"].rsplit("/", 1)[1]: (one["displayName"], one["state"]) for one in page["customJobs"]})
            token = page.get("nextPageToken")
        return found

    def all_ended(self):
        return all(state in ENDED for _, state in self.listed().values())

    def test_running_and_waiting_jobs_are_found_again(self):
        self.serve()
        running = self.create("sleep 300", machine="n1-standard-8")
        self.await_state(running, "JOB_STATE_RUNNING")
        waiting = self.create("true", machine="n1-standard-8")
        self.assertEqual(self.service.end(signal.SIGTERM), 0)
        self.again()
        self.assertEqual(self.state_of(running), "JOB_STATE_RUNNING")
        self.assertEqual(self.state_of(waiting), "JOB_STATE_QUEUED")
        self.ask("POST", f"{JOBS}/{running}:cancel", {})
        self.await_state(running, "JOB_STATE_CANCELLED")
        self.await_state(waiting, "JOB_STATE_SUCCEEDED")

    def test_a_job_whose_runner_is_killed_ends_with_a_reason(self):
        self.serve()
        number = self.create("sleep 300")
        self.await_state(number, "JOB_STATE_RUNNING")
        runners = wait_until(lambda: processes_of(number))
        for pid in runners:
            os.kill(pid, signal.SIGKILL)
        message = self.await_state(number, "JOB_STATE_FAILED")["error"]["message"]
        self.assertRegex(message, "runner|guard", "whichever was found dead first")

    def test_a_second_service_is_refused(self):
        self.serve()
        run = subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0"], env=self.env, capture_output=True, text=True,
                             timeout=LONG, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"another service has it, which listens on {self.service.url}\n", run.stderr)

    def test_a_second_runner_says_that_it_is_not_needed(self):
        self.serve()
        number = self.create("sleep 300")
        self.await_state(number, "JOB_STATE_RUNNING")
        run = subprocess.run([SUMMAND, "run-queued", f"--id={number}"], env=self.env, capture_output=True, text=True, timeout=LONG,
                             check=False)
        self.assertEqual((run.returncode, run.stderr), (1, f"summand: {number}: another runner has the job, and this one is not needed\n"))

    def test_a_job_waits_no_longer_than_it_says(self):
        self.serve()
        running = self.create("sleep 300", machine="n1-standard-8")
        self.await_state(running, "JOB_STATE_RUNNING")
        late = []
        for _ in range(3):      # each begins when the one before has ended; jobs whose runner is gone are looked for each 5 s
            number = self.create("true", machine="n1-standard-8", scheduling={"maxWaitDuration": "1s"})
            ended = self.await_state(number, "JOB_STATE_FAILED")
            self.assertIn("maxWaitDuration", ended["error"]["message"])
            waited = [datetime.datetime.fromisoformat(ended[key][:26]) for key in ("endTime", "createTime")]
            late.append((waited[0] - waited[1]).total_seconds() - 1)
        self.assertGreaterEqual(min(late), 0)
        self.assertLess(min(late[1:]), 2.5, late)

    def test_the_command_line_cancels_what_waits(self):
        self.serve()
        running = self.create("sleep 300", machine="n1-standard-8")
        self.await_state(running, "JOB_STATE_RUNNING")
        number = self.create("true", machine="n1-standard-8")
        self.service.end(signal.SIGKILL)
        subprocess.run([SUMMAND, "custom-jobs", "cancel", number], env=self.env, check=True, capture_output=True, timeout=LONG)
        self.again()
        self.assertEqual(self.state_of(number), "JOB_STATE_CANCELLED")

    def test_the_address_is_in_the_state_directory(self):
        self.serve()
        said = subprocess.run([SUMMAND, "env-gcloud", "--project=demo"], env=self.env, capture_output=True, text=True,
                              timeout=LONG, check=True).stdout
        self.assertIn(f"AIPLATFORM={self.service.url}/\n", said)
        self.assertIn("CLOUDSDK_CORE_PROJECT=demo\n", said)
        self.assertTrue(PLACE.startswith("/v1/projects/demo"))
        # What another service has needed is taken back.
        shell = ('eval "$($0 env-gcloud --token-file=/t --ca=/c)"; eval "$($0 env-gcloud)"; '
                 'echo "$CLOUDSDK_AUTH_DISABLE_CREDENTIALS, $CLOUDSDK_AUTH_ACCESS_TOKEN_FILE, $CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"; '
                 'eval "$($0 env-gcloud --token-file=/t)"; echo "$CLOUDSDK_AUTH_DISABLE_CREDENTIALS, $CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"')
        said = subprocess.run(["bash", "-c", shell, SUMMAND], env=self.env, capture_output=True, text=True, timeout=LONG, check=True)
        self.assertEqual((said.stdout, said.stderr), ("true, , \n, /t\n", ""))
        said = subprocess.run([SUMMAND, "env-gcloud"], env=dict(self.env, SUMMAND_STATE_DIR=os.path.join(self.dir, "elsewhere")),
                              capture_output=True, text=True, timeout=LONG, check=True)
        self.assertIn("no service has run in this state directory", said.stderr)


if __name__ == "__main__":
    unittest.main()
