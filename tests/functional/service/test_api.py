"""The API over plain HTTP: what clients send, what they are answered, and what becomes of the jobs."""

import json
import os
import subprocess
import sys
import unittest
import urllib.parse

from served import ENDED, JOBS, LONG, PLACE, SUMMAND, ServiceTest, job, pool, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import otlp  # noqa: E402

SOURCE = os.environ.get("SUMMAND_SOURCE", os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))
SCRIPT = "echo hello from $SUMMAND_REPLICA; echo trouble >&2"


class Api(ServiceTest):
    def setUp(self):
        super().setUp()
        self.complete = set()
        self.serve()

    def entries(self, number, *terms, **more):
        if number not in self.complete:  # its runner has written its last words
            subprocess.run([SUMMAND, "custom-jobs", "wait", number], env=self.env, capture_output=True, timeout=LONG, check=False)
            self.complete.add(number)
        text = " AND ".join(['resource.type="ml_job"', f'resource.labels.job_id="{number}"', *terms])
        return self.ask("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "filter": text,
                                                     "orderBy": "timestamp asc", "pageSize": 1000, **more})

    def test_traces(self):
        """Of a service's jobs, by their ids; what waits in the queue is seen."""
        traces = os.path.join(self.dir, "traces")
        os.mkdir(traces)
        self.service.end()
        self.serve("--traces=" + traces, *self.FLAGS)
        number = self.create("true", "traced")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        path = os.path.join(traces, number + ".json")
        self.assertTrue(wait_until(lambda: os.path.exists(path) and os.path.getsize(path)))
        root, spans = otlp.read(self, path)
        self.assertEqual({span["name"] for span in spans}, {"traced", "queued", "pending", "running", "ending", "workerpool0-0"})
        self.assertEqual(root["name"], "traced")

    def test_a_trace_that_cannot_be_written_is_no_jobs_end(self):
        traces = os.path.join(self.dir, "new", "traces")
        self.service.end()
        refused = subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0", "--traces=" + traces], env=self.env, capture_output=True,
                                 text=True, timeout=LONG, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f"--traces={traces}: No such file or directory", refused.stderr)
        traces = os.path.dirname(traces)
        self.serve("--traces=" + traces, *self.FLAGS)
        self.assertEqual(os.stat(traces).st_mode & 0o777, 0o700)
        os.rmdir(traces)
        number = self.create("echo it runs")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        lines = {entry["textPayload"]: entry["severity"] for entry in self.entries(number)["entries"]}
        self.assertEqual(lines["it runs"], "INFO")
        self.assertEqual(lines[f"The trace cannot be written: {traces}/{number}.json: No such file or directory"], "WARNING")

    def test_severities_have_their_order_and_names(self):
        number = self.create("for i in 1 2 3; do echo line; done; echo trouble >&2")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        count = lambda *terms: len(self.entries(number, 'resource.labels.task_name="workerpool0-0"', *terms)["entries"])
        for term, lines in (("severity>=ERROR", 1), ("severity>=WARNING", 1), ("severity>=DEFAULT", 4), ("severity<ERROR", 3),
                            ("severity<=warning", 3), ("severity>CRITICAL", 0), ("severity!=INFO", 1), ("severity=200", 3),
                            ("NOT severity>=NOTICE", 3)):
            self.assertEqual(count(term), lines, term)
        for wrong in "severity>=BAD", "severity=", "severity=250":
            text = f'resource.labels.job_id="{number}" AND {wrong}'
            error = self.fails("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "filter": text}, 400, "INVALID_ARGUMENT")
            self.assertIn("must be one of DEFAULT, DEBUG, INFO, NOTICE, WARNING", error["message"])
        for names in ("x", [], [1], [""], None):
            self.fails("POST", "/v2/entries:list", {"resourceNames": names, "filter": f'resource.labels.job_id="{number}"'}, 400,
                       "INVALID_ARGUMENT")
        self.fails("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "filter": 1}, 400, "INVALID_ARGUMENT")
        self.fails("POST", f"{JOBS}/{number}:cancel", {"x": 1}, 400, "INVALID_ARGUMENT")
        self.fails("POST", f"{JOBS}/{number}:cancel", "[]", 400, "INVALID_ARGUMENT")

    def test_trials_have_lines_and_traces(self):
        """All of a tuning job's logs are one, in the order of time, each line with its trial; the trace has all trials, too."""
        traces = os.path.join(self.dir, "traces")
        self.service.end()
        self.serve("--traces=" + traces, *self.FLAGS)
        script = ('for i in $(seq 40); do echo $CLOUD_ML_TRIAL_ID says $i; done; sleep 1.1; echo $CLOUD_ML_TRIAL_ID ends; '
                  'mkdir -p ${CLOUD_ML_HP_METRIC_FILE%/*}; echo \'{"timestamp":1,"trial":"\'$CLOUD_ML_TRIAL_ID\'","loss":"0.5",'
                  '"global_step":"1","checkpoint_path":""}\' >$CLOUD_ML_HP_METRIC_FILE')
        made = self.ask("POST", PLACE + "/hyperparameterTuningJobs", {
            "displayName": "tuned", "maxTrialCount": 3, "parallelTrialCount": 2, "trialJobSpec": job(script)["jobSpec"],
            "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                          "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}})
        number = made["name"].rsplit("/", 1)[1]
        question = lambda *terms, **more: self.ask("POST", "/v2/entries:list", {
            "resourceNames": ["projects/demo"], "filter": " AND ".join([f'resource.labels.job_id="{number}"', *terms]),
            "orderBy": "timestamp asc", **more})
        seen, time, insert, state, going = [], "1970-01-01T00:00:00Z", "", None, None
        def follow():   # as gcloud does
            nonlocal time, insert
            while True:
                page = question(f'((timestamp="{time}" AND insertId>"{insert}") OR timestamp>"{time}")', pageSize=7).get("entries", [])
                for entry in page:
                    time, insert = entry["timestamp"], entry["insertId"]
                    seen.append((entry.get("labels", {}).get("ml.googleapis.com/trial_id"), entry["textPayload"]))
                if not page:
                    return
        while state not in ENDED:
            state = self.ask("GET", "/v1/" + made["name"])["state"]
            progress = self.ask("GET", f"/v1/{made['name']}/replicas").get("progress", {})
            going = progress if 0 < progress.get("done", 0) < 3 else going
            follow()
        self.assertEqual(state, "JOB_STATE_SUCCEEDED")
        subprocess.run([SUMMAND, "hp-tuning-jobs", "wait", number], env=self.env, capture_output=True, timeout=LONG, check=True)
        follow()
        for trial in "123":
            self.assertEqual([text for which, text in seen if which == trial and "says" in text], [f"{trial} says {i}" for i in range(1, 41)])
            self.assertEqual(seen.count((trial, f"{trial} ends")), 1)
        self.assertTrue(any(which is None and "trial 3" in text for which, text in seen))
        pages, token = [], ""
        while token is not None:
            page = question('labels."ml.googleapis.com/trial_id"="2"', 'textPayload:"says"', pageSize=13, pageToken=token)
            pages += [entry["textPayload"] for entry in page["entries"]]
            token = page.get("nextPageToken")
        self.assertEqual(pages, [f"2 says {i}" for i in range(1, 41)])
        last = question('textPayload:"ends"', orderBy="timestamp desc", pageSize=2)
        self.assertEqual([entry["textPayload"] for entry in last["entries"]][0], "3 ends")
        here = subprocess.run([SUMMAND, "hp-tuning-jobs", "stream-logs", number], env=self.env, capture_output=True, text=True, timeout=LONG,
                              check=True).stdout
        there = subprocess.run([SUMMAND, "hp-tuning-jobs", "stream-logs", number, "--project=demo", f"--service={self.service.url}"],
                               env=self.env, capture_output=True, text=True, timeout=LONG, check=True).stdout
        self.assertEqual(there, here)
        progress = self.ask("GET", f"/v1/{made['name']}/replicas")["progress"]
        self.assertEqual((progress["done"], progress["total"], progress["unit"]), (3, 3, "trials"))
        self.assertTrue({"rate", "estimatedEndTime"} <= set(going or {}), "it must have had a rate and an end while it ran")
        root, spans = otlp.read(self, os.path.join(traces, number + ".json"), lines=4)
        self.assertEqual((root["name"], otlp.attributes(root)["summand.state"]), ("tuned", "JOB_STATE_SUCCEEDED"))
        for trial in "123":
            [own] = [span for span in spans if span["name"] == f"trial {trial}"]
            self.assertEqual(own["parentSpanId"], root["spanId"])
            self.assertEqual({span["name"] for span in spans if span.get("parentSpanId") == own["spanId"]},
                             {"pending", "running", "ending", "workerpool0-0"})

    def test_a_job_runs_and_its_lines_are_found(self):
        made = self.ask("POST", JOBS + "?alt=json", job(SCRIPT, "first", {"team": "blue"}))
        self.assertRegex(made["name"], r"^projects/demo/locations/us-central1/customJobs/\d{19}$")
        self.assertEqual(made["displayName"], "first")
        self.assertEqual(made["labels"], {"team": "blue"})
        self.assertIn(made["state"], ("JOB_STATE_QUEUED", "JOB_STATE_PENDING"))
        self.assertEqual(made["jobSpec"]["workerPoolSpecs"][0]["replicaCount"], "1")
        number = made["name"].rsplit("/", 1)[1]
        ended = self.await_state(number, "JOB_STATE_SUCCEEDED")
        times = [ended[key] for key in ("createTime", "startTime", "endTime", "updateTime")]
        self.assertEqual(times, sorted(times))
        self.assertNotIn("error", ended)
        lines = {entry["textPayload"]: entry for entry in self.entries(number)["entries"]}
        self.assertIn("hello from workerpool0-0", lines)
        entry = lines["trouble"]
        self.assertEqual(entry["resource"]["labels"]["task_name"], "workerpool0-0")
        self.assertEqual(entry["severity"], "ERROR")
        self.assertEqual(entry["resource"]["labels"]["job_id"], number)

    def test_gclouds_way_through_the_log_shows_each_line_once(self):
        number = self.create("for i in $(seq 300); do echo line $i; done; sleep 1.2; echo last")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        seen, bound = [], 'timestamp>="1970-01-01T01:00:00.000000000Z"'
        time = insert = ""
        for _ in range(1000):
            page = self.entries(number, bound, 'timestamp<"2200-01-01T00:00:00.000000+00:00"',
                                'resource.labels.task_name="workerpool0-0"', pageSize=37)["entries"]
            if not page:
                break
            for entry in page:
                if (entry["timestamp"], entry["insertId"]) > (time, insert):
                    time, insert = entry["timestamp"], entry["insertId"]
                    seen.append(entry["textPayload"])
            bound = f'((timestamp="{time}" AND insertId>"{insert}") OR timestamp>"{time}")'
        self.assertEqual([line for line in seen if line.startswith("l")], [f"line {i}" for i in range(1, 301)] + ["last"])
        pages, token = [], ""
        while token is not None:
            page = self.entries(number, 'textPayload:"line"', pageSize=100, pageToken=token)
            pages += [entry["textPayload"] for entry in page["entries"]]
            token = page.get("nextPageToken")
        self.assertEqual(pages, [f"line {i}" for i in range(1, 301)])
        last = self.entries(number, 'resource.labels.task_name="workerpool0-0"', orderBy="timestamp desc", pageSize=2)
        self.assertEqual([entry["textPayload"] for entry in last["entries"]], ["last", "line 300"])

    def test_the_end_of_a_long_log_is_found_and_the_way_through_it(self):
        number = self.create("seq 300000; echo last")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        task = 'resource.labels.task_name="workerpool0-0"'
        last = self.entries(number, task, orderBy="timestamp desc", pageSize=3)["entries"]
        self.assertEqual([entry["textPayload"] for entry in last], ["last", "300000", "299999"])
        found = self.entries(number, f'timestamp="{last[0]["timestamp"]}"', f'insertId="{last[0]["insertId"]}"', task)
        lines = list(found["entries"])
        while "nextPageToken" in found:  # each page looks at a part of the log
            found = self.entries(number, f'timestamp="{last[0]["timestamp"]}"', f'insertId="{last[0]["insertId"]}"', task,
                                 pageToken=found["nextPageToken"])
            lines += found["entries"]
        self.assertEqual(lines, last[:1])

    def test_a_failing_job_says_why(self):
        ended = self.await_state(self.create("echo no such file >&2; exit 3"), "JOB_STATE_FAILED")
        self.assertIn("workerpool0-0", ended["error"]["message"])
        self.assertIn("no such file", ended["error"]["message"])
        self.assertGreater(ended["error"]["code"], 0)

    def test_running_and_queued_jobs_are_cancelled(self):
        running = self.create("sleep 300", machine="n1-standard-64")
        self.await_state(running, "JOB_STATE_RUNNING")
        queued = self.create("echo never")
        self.assertEqual(self.state_of(queued), "JOB_STATE_QUEUED")
        self.assertEqual(self.ask("POST", f"{JOBS}/{queued}:cancel", {}), {})
        self.assertEqual(self.state_of(queued), "JOB_STATE_CANCELLED")
        self.assertNotIn("startTime", self.ask("GET", f"{JOBS}/{queued}"))
        self.ask("POST", f"{JOBS}/{running}:cancel")
        self.await_state(running, "JOB_STATE_CANCELLED")
        self.ask("POST", f"{JOBS}/{running}:cancel", {})  # a client cannot know that it has ended

    def test_jobs_wait_for_room_and_begin_in_order(self):
        first = self.create("sleep 300", machine="n1-standard-64")
        self.await_state(first, "JOB_STATE_RUNNING")
        others = [self.create("true") for _ in range(3)]
        self.assertEqual({self.state_of(number) for number in others}, {"JOB_STATE_QUEUED"})
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        for number in others:
            self.await_state(number, "JOB_STATE_SUCCEEDED")

    def test_what_never_fits_is_refused(self):
        error = self.fails("POST", JOBS, job(machine="n1-standard-96"), 429, "RESOURCE_EXHAUSTED")
        self.assertIn("96 CPUs", error["message"])

    def test_a_job_is_deleted_by_an_operation(self):
        number = self.create("sleep 300")
        self.await_state(number, "JOB_STATE_RUNNING")
        self.fails("DELETE", f"{JOBS}/{number}", None, 400, "FAILED_PRECONDITION")
        self.ask("POST", f"{JOBS}/{number}:cancel", {})
        self.await_state(number, "JOB_STATE_CANCELLED")
        operation = self.ask("DELETE", f"{JOBS}/{number}")
        self.assertTrue(operation["done"])
        self.assertEqual(self.ask("GET", "/v1/" + operation["name"]), operation)
        short = operation["name"].rsplit("/", 1)[1]
        self.assertEqual(self.ask("GET", f"{PLACE}/operations/{short}"), operation)
        self.fails("GET", f"{PLACE}/operations/17", None, 404, "NOT_FOUND")
        self.fails("GET", f"{JOBS}/{number}", None, 404, "NOT_FOUND")
        self.fails("DELETE", f"{JOBS}/{number}", None, 404, "NOT_FOUND")
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), [])

    def test_lists_are_filtered_cut_and_masked(self):
        numbers = [self.create("true", f"job-{i}", {"team": "blue" if i % 2 else "red", "size": str(i)}) for i in range(5)]
        for number in numbers:
            self.await_state(number, "JOB_STATE_SUCCEEDED")

        def names(text, **more):
            query = "&".join(f"{key}={value}" for key, value in {"filter": text, **more}.items())
            return [found["displayName"] for found in self.ask("GET", f"{JOBS}?{query}").get("customJobs", [])]

        self.assertEqual(names(""), ["job-4", "job-3", "job-2", "job-1", "job-0"])
        self.assertEqual(names('display_name%3D%22job-3%22'), ["job-3"])
        self.assertEqual(names('labels.team=blue'), ["job-3", "job-1"])
        self.assertEqual(names('NOT+labels.team=blue+AND+display_name!=job-0'), ["job-4", "job-2"])
        self.assertEqual(names('labels.size=1+OR+labels.size=2+AND+labels.team=red'), ["job-2"])
        self.assertEqual(names('(labels.size=1+OR+labels.size=2)+AND+state=%22JOB_STATE_SUCCEEDED%22'), ["job-2", "job-1"])
        self.assertEqual(names('labels.size:*+AND+display_name:%22job-*%22+AND+create_time%3E%222001-01-01T00:00:00Z%22'),
                         names(""))
        self.assertEqual(names('state!=JOB_STATE_SUCCEEDED'), [])
        for same in "SUCCEEDED", "4", "job_state_succeeded":
            self.assertEqual(names(f"state={same}"), names(""))
        self.assertEqual(names("state=JOB_STATE_PAUSED"), [])
        seen, token, pages = [], "", 0
        while token is not None:
            page = self.ask("GET", f"{JOBS}?pageSize=2&pageToken={token}")
            seen += [found["displayName"] for found in page["customJobs"]]
            token = page.get("nextPageToken")
            pages += 1
        self.assertEqual((seen, pages), (names(""), 3))
        masked = self.ask("GET", f"{JOBS}?readMask=name,display_name,jobSpec.scheduling&pageSize=1")["customJobs"][0]
        self.assertEqual(set(masked), {"name", "displayName"})
        masked = self.ask("GET", f"{JOBS}/{numbers[0]}?readMask=labels.size,error.message,job_spec.worker_pool_specs")
        self.assertEqual((set(masked), masked["labels"]), ({"labels", "jobSpec"}, {"size": "0"}))
        everywhere = self.ask("GET", "/v1/projects/demo/locations/-/customJobs")["customJobs"]
        self.assertEqual(len(everywhere), 5)
        self.assertEqual(self.ask("GET", "/v1/projects/other/locations/us-central1/customJobs"), {"customJobs": []})
        self.fails("GET", f"/v1/projects/other/locations/us-central1/customJobs/{numbers[0]}", None, 404, "NOT_FOUND")
        for query, field in (("filter=nosuch=1", "filter"), ("filter=(state=1", "filter"), ("pageSize=x", "page_size"),
                             ("filter=state=FOO", "filter"), ("filter=state=", "filter"), ("filter=state=12", "filter"),
                             ("pageToken=x", "page_token"), ("pageToken=5b5d", "page_token"), ("orderBy=name", "order_by"),
                             ("orderBy=state,state", "order_by"), ("orderBy=state+up", "order_by"), ("orderBy=state,,", "order_by"),
                             ("readMask=nosuch", "read_mask"), ("readMask=jobSpec.workerPoolSpecs.replicaCount", "read_mask"),
                             ("readMask=name,", "read_mask"), ("nosuch=1", ""), ("alt=xml", "alt")):
            error = self.fails("GET", f"{JOBS}?{query}", None, 400, "INVALID_ARGUMENT")
            self.assertEqual(error["details"][0]["fieldViolations"][0]["field"], field)

    def test_labels_of_any_text_are_found(self):
        """Also where the stored text looks like another label's."""
        labels = [{"team": "x", "k": "team"}, {"k": "team", "team": "z"}, {"teams": "y", "my-team": "y"}, {"team": "l" * 63}, {}]
        for i, one in enumerate(labels):
            self.create("true", f"label-{i}", one)
        for key, value, wanted in (("team", "y", []), ("team", "x", [0]), ("team", "z", [1]), ("k", "team", [1, 0]), ("teams", "y", [2]),
                                   ("my-team", "y", [2]), ("team", "l" * 63, [3]), ("eam", "x", []), ("s", "y", []), ("k", 'team","', []),
                                   ('k":"team","team', "z", []), ("te", "", [])):
            quoted = value.replace('"', '\\"')
            name = key.replace('"', '\\"')
            query = urllib.parse.quote(f'labels."{name}"="{quoted}" AND displayName:"label-*"')
            found = self.ask("GET", f"{JOBS}?filter={query}").get("customJobs", [])
            self.assertEqual([one["displayName"] for one in found], [f"label-{i}" for i in wanted], (key, value))

    def test_lists_are_in_any_order_page_by_page(self):
        for i, name in enumerate(("b", "a", "c", "a", "b")):
            self.create("true", name, {"size": str(i)}, machine="n1-standard-64")
        running = self.create("sleep 300", "d", {"size": "5"})

        def sizes(order, **more):
            found, token, pages = [], "", 0
            while token is not None:
                query = "&".join(f"{key}={value}" for key, value in {"orderBy": order, "pageToken": token, **more}.items())
                page = self.ask("GET", f"{JOBS}?{query}")
                found += [one["labels"]["size"] for one in page["customJobs"]]
                token = page.get("nextPageToken")
                pages += 1
            return "".join(found), pages

        for size, pages in ((1, 6), (2, 3), (4, 2), (6, 1)):
            self.assertEqual(sizes("display_name,create_time", pageSize=size), ("130425", pages))
            self.assertEqual(sizes("displayName+desc,+createTime+asc", pageSize=size), ("520413", pages))
            self.assertEqual(sizes("display_name", pageSize=size), ("314025", pages))
            self.assertEqual(sizes("create_time", pageSize=size), ("012345", pages))
            self.assertEqual(sizes("", pageSize=size), ("543210", pages))
        self.assertEqual(sizes("display_name", pageSize=1, filter="NOT+displayName=a"), ("4025", 4))
        # A job without a time comes before those that have it; a token holds for its own order alone.
        self.ask("POST", f"{JOBS}/{running}:cancel", {})
        self.await_state(running, "JOB_STATE_CANCELLED")
        waiting = self.create("sleep 300", "e", {"size": "6"})
        ordered = [one["displayName"] for one in self.ask("GET", JOBS + "?orderBy=end_time")["customJobs"]]
        self.assertLess(ordered.index("e"), ordered.index("d"))
        self.ask("POST", f"{JOBS}/{waiting}:cancel", {})
        self.await_state(waiting, "JOB_STATE_CANCELLED")
        self.ask("DELETE", f"{JOBS}/{waiting}")
        token = self.ask("GET", JOBS + "?orderBy=display_name&pageSize=2")["nextPageToken"]
        self.fails("GET", f"{JOBS}?orderBy=display_name+desc&pageToken={token}", None, 400, "INVALID_ARGUMENT")
        self.fails("GET", f"{JOBS}?pageToken={token}", None, 400, "INVALID_ARGUMENT")
        quoted = self.create("sleep 300", "it's \"quoted\" -- ' OR 1=1", {"size": "6"})
        self.assertEqual(sizes("displayName+desc", pageSize=1), ("6524031", 7))
        self.ask("POST", f"{JOBS}/{quoted}:cancel", {})

    def test_enumerations_are_numbers_where_a_client_wants_them(self):
        body = job()
        body["jobSpec"]["workerPoolSpecs"][0]["machineSpec"].update(acceleratorType=5, acceleratorCount=1)
        body["jobSpec"]["scheduling"] = {"strategy": 3}
        made = self.ask("POST", JOBS + "?%24alt=json%3Benum-encoding%3Dint", body)
        self.assertIn(made["state"], (1, 2))
        machine = made["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]
        self.assertEqual((machine["acceleratorType"], made["jobSpec"]["scheduling"]["strategy"]), (5, 3))
        number = made["name"].rsplit("/", 1)[1]
        named = self.ask("GET", f"{JOBS}/{number}")
        self.assertEqual(named["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"], "NVIDIA_TESLA_T4")
        self.assertTrue(named["state"].startswith("JOB_STATE_"))
        listed = self.ask("GET", JOBS + "?$alt=json;enum-encoding=int")["customJobs"]
        self.assertIsInstance(listed[0]["state"], int)

    def test_what_googles_python_client_sends_over_rest(self):
        """As its REST transport writes requests: its query, its headers, numbers for enumerations, texts for long numbers."""
        query = "?%24alt=json%3Benum-encoding%3Dint"
        headers = {"Content-Type": "application/json", "x-goog-request-params": "parent=projects/demo/locations/us-central1",
                   "x-goog-api-client": "gl-python/3.11.2 rest/2.31.0 gapic/1.70.0 gccl/1.70.0", "User-Agent": "python-requests/2.31.0",
                   "Accept-Encoding": "gzip, deflate", "Accept": "*/*", "Connection": "keep-alive"}
        body = {"displayName": "python", "jobSpec": {
            "workerPoolSpecs": [{"replicaCount": "1", "machineSpec": {"machineType": "n1-standard-4"},
                                 "containerSpec": {"imageUri": "local", "command": ["sleep", "300"]}}],
            "scheduling": {"timeout": "600s", "restartJobOnWorkerRestart": True, "strategy": 1}}, "labels": {"a": "b"}}
        made = self.ask("POST", JOBS + query, json.dumps(body, indent=2), headers=headers)
        self.assertEqual((made["displayName"], made["jobSpec"]["scheduling"]["timeout"]), ("python", "600s"))
        path = "/v1/" + made["name"]
        self.assertTrue(wait_until(lambda: self.ask("GET", path + query, headers=headers)["state"] == 3))
        listed = self.ask("GET", f"{JOBS}?filter=state%3D%22JOB_STATE_RUNNING%22&pageSize=10&readMask=name%2CdisplayName&{query[1:]}",
                          headers=headers)
        self.assertEqual(listed, {"customJobs": [{"name": made["name"], "displayName": "python"}]})
        self.assertEqual(self.ask("POST", path + ":cancel" + query, "{}", headers=headers), {})
        self.assertTrue(wait_until(lambda: self.ask("GET", path + query, headers=headers)["state"] == 7))
        operation = self.ask("DELETE", path + query, headers=headers)
        self.assertEqual((operation["done"], operation["response"]["@type"]), (True, "type.googleapis.com/google.protobuf.Empty"))
        self.assertEqual(self.ask("GET", "/v1/" + operation["name"] + query, headers=headers), operation)
        error = self.fails("GET", path + query, None, 404, "NOT_FOUND", headers)
        self.assertIn("does not exist", error["message"])

    def test_wrong_jobs_are_refused_as_google_does(self):
        body = job()
        body["jobSpec"]["nosuch"] = 1
        error = self.fails("POST", JOBS, body, 400, "INVALID_ARGUMENT")
        self.assertIn("Unknown name \"nosuch\" at 'custom_job.job_spec': Cannot find field.", error["message"])
        self.assertEqual(error["details"][0]["@type"], "type.googleapis.com/google.rpc.BadRequest")
        self.assertEqual(error["details"][0]["fieldViolations"][0]["field"], "custom_job.job_spec")
        body = job()
        body["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] = "NVIDIA_ABACUS"
        error = self.fails("POST", JOBS, body, 400, "INVALID_ARGUMENT")
        path = "custom_job.job_spec.worker_pool_specs[0].machine_spec.accelerator_type"
        self.assertEqual(error["details"][0]["fieldViolations"][0]["field"], path)
        self.assertIn(f"Invalid value at '{path}'", error["message"])
        for text in ("", "{", "[]", "{}", "null", '{"a": 1, "a": 2}', '{"studySpec": {}}', '{"displayName": "x"}', "\0", "\xff"):
            self.fails("POST", JOBS, text.encode("latin-1"), 400, "INVALID_ARGUMENT")
        without = {"displayName": "x", "jobSpec": {"workerPoolSpecs": [{"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"},
                                                                     "containerSpec": {"imageUri": "gcr.io/a/b"}}]}}
        self.fails("POST", JOBS, without, 400, "INVALID_ARGUMENT")
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})

    def test_secrets_are_in_no_answer_and_no_log(self):
        body = job("echo $MY_PASSWORD | md5sum")
        body["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"] = [{"name": "MY_PASSWORD", "value": "open-sesame"}]
        made = self.ask("POST", JOBS, body)
        self.assertNotIn("open-sesame", json.dumps(made))
        number = made["name"].rsplit("/", 1)[1]
        ended = self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertNotIn("open-sesame", json.dumps(ended) + self.service.said())
        lines = [entry["textPayload"] for entry in self.entries(number)["entries"]]
        self.assertTrue(any(len(line.split()[0]) == 32 for line in lines if line.strip()), lines)  # the replica has it
        with subprocess.Popen(["grep", "-rl", "open-sesame", self.state], stdout=subprocess.PIPE, text=True) as found:
            for path in found.communicate(timeout=LONG)[0].split():
                self.assertIn(os.path.basename(path), ("spec.json", "jobs.db", "jobs.db-wal"), path)

    def test_several_pools_run_with_a_reduction_server(self):
        body = job("test -n \"$SUMMAND_REDUCTION_SERVERS\" && echo rank $RANK of $WORLD_SIZE", "pools")
        pools = body["jobSpec"]["workerPoolSpecs"]
        pools.append(pool("echo rank $RANK of $WORLD_SIZE", replicas="2"))
        pools.append({"replicaCount": 2, "machineSpec": {"machineType": "n1-highcpu-16"}, "containerSpec": {
            "imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"}})
        number = self.ask("POST", JOBS.replace("v1", "v1beta1"), body)["name"].rsplit("/", 1)[1]
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        lines = {entry["textPayload"] for entry in self.entries(number)["entries"]}
        self.assertLessEqual({f"rank {i} of 3" for i in range(3)}, lines)

    def test_what_follows_a_nul_is_not_lost(self):
        number = self.create("printf 'before\\000behind\\n'")
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertIn("before?behind", [entry["textPayload"] for entry in self.entries(number)["entries"]])

    def test_the_command_line_sees_the_same_jobs(self):
        number = self.create("sleep 300", "shared")
        self.await_state(number, "JOB_STATE_RUNNING")
        name = self.ask("GET", f"{JOBS}/{number}")["name"]
        here = lambda *words: subprocess.run([SUMMAND, "custom-jobs", *words], env=self.env, capture_output=True, text=True, timeout=LONG,
                                             check=True).stdout.strip()
        self.assertEqual(here("list", "--uri"), name)       # and by that it is found
        for word in name, f"projects/local/locations/local/customJobs/{number}", number:
            self.assertEqual(here("describe", word, "--format=value(name)"), name)
            self.assertEqual(here("exec", word, "--", "echo", "well"), "well")
        other = subprocess.run([SUMMAND, "custom-jobs", "describe", name.replace("demo", "other")], env=self.env, capture_output=True,
                               text=True, timeout=LONG, check=False)
        self.assertIn("there is no such job", other.stderr)
        listed = subprocess.run([SUMMAND, "custom-jobs", "list", "--format=json"], env=self.env, capture_output=True, text=True,
                                timeout=LONG, check=True)
        self.assertEqual([(found["displayName"], found["state"]) for found in json.loads(listed.stdout)],
                         [("shared", "JOB_STATE_RUNNING")])
        subprocess.run([SUMMAND, "custom-jobs", "cancel", number], env=self.env, capture_output=True, timeout=LONG, check=True)
        self.await_state(number, "JOB_STATE_CANCELLED")

    def test_the_command_line_follows_what_waits(self):
        first = self.create("sleep 300", machine="n1-standard-64")
        self.await_state(first, "JOB_STATE_RUNNING")
        number = self.create("echo here at last")
        late = subprocess.run([SUMMAND, "custom-jobs", "wait", number, "--timeout=1"], env=self.env, capture_output=True,
                              timeout=LONG, check=False)
        self.assertEqual(late.returncode, 124)
        followers = [subprocess.Popen([SUMMAND, "custom-jobs", verb, number], env=self.env, text=True, stdout=subprocess.PIPE)
                     for verb in ("stream-logs", "wait")]
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        said = [follower.communicate(timeout=LONG)[0] for follower in followers]
        self.assertEqual([follower.returncode for follower in followers], [0, 0])
        self.assertIn("here at last", said[0])

    def test_jobs_of_a_higher_priority_begin_first(self):
        first = self.create("sleep 300", machine="n1-standard-64")
        self.await_state(first, "JOB_STATE_RUNNING")
        order = os.path.join(self.dir, "order")
        numbers = [self.create(f"echo {priority} >>{order}", labels={"summand-priority": str(priority)}, machine="n1-standard-64")
                   for priority in (1, 0, 7, 3, 7)]
        self.fails("POST", JOBS, job(labels={"summand-priority": "high"}), 400, "INVALID_ARGUMENT")
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        for number in numbers:
            self.await_state(number, "JOB_STATE_SUCCEEDED")
        with open(order, encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["7", "7", "3", "1", "0"])

    def test_a_tuning_job_runs_its_trials(self):
        script = ('import json, os, sys; x = float(dict(w[2:].split("=") for w in sys.argv[1:])["x"]);'
                  'p = os.environ["CLOUD_ML_HP_METRIC_FILE"]; os.makedirs(os.path.dirname(p), exist_ok=True);'
                  'open(p, "w").write(json.dumps({"timestamp": 1, "trial": os.environ["CLOUD_ML_TRIAL_ID"], "loss": str(x * x),'
                  ' "global_step": "1", "checkpoint_path": ""}) + chr(10))')
        container = {"imageUri": "local", "command": ["python3", "-c", script]}
        body = {"displayName": "tuned", "maxTrialCount": 3, "parallelTrialCount": 2,
                "studySpec": {"metrics": [{"metricId": "loss", "goal": 2}], "algorithm": "RANDOM_SEARCH",
                              "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": -1, "maxValue": 1}}]},
                "trialJobSpec": {"workerPoolSpecs": [{"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"},
                                                      "containerSpec": container}]}}
        place = PLACE + "/hyperparameterTuningJobs"
        made = self.ask("POST", place, body)
        self.assertEqual(made["studySpec"]["metrics"][0]["goal"], "MINIMIZE")
        ended = wait_until(lambda: (lambda found: found if found["state"] in ENDED else None)(self.ask("GET", "/v1/" + made["name"])))
        self.assertEqual(ended["state"], "JOB_STATE_SUCCEEDED", ended)
        self.assertEqual([trial["state"] for trial in ended["trials"]], ["SUCCEEDED"] * 3)
        numbers = self.ask("GET", f"/v1/{made['name']}?$alt=json;enum-encoding=int")
        self.assertEqual([trial["state"] for trial in numbers["trials"]], [4] * 3)
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})
        self.assertEqual([found["name"] for found in self.ask("GET", place)["hyperparameterTuningJobs"]], [made["name"]])
        self.fails("GET", made["name"].replace("projects", "/v1/projects").replace("hyperparameterTuningJobs", "customJobs"), None, 404,
                   "NOT_FOUND")
        body["studySpec"]["algorithm"] = "GRID_SEARCH"
        body["studySpec"]["parameters"][0]["nosuch"] = 1
        error = self.fails("POST", place, body, 400, "INVALID_ARGUMENT")
        self.assertIn("hyperparameter_tuning_job.study_spec.parameters[0]", error["message"])

    def test_many_creates_at_once_are_all_there(self):
        connections = [self.connect() for _ in range(16)]
        names = set()
        for turn in range(4):
            for i, connection in enumerate(connections):
                connection.request("POST", JOBS, json.dumps(job("true", f"many-{turn}-{i}", machine="n1-standard-64")),
                                   {"Content-Type": "application/json"})
            for connection in connections:
                answer = connection.getresponse()
                names.add(json.loads(answer.read())["name"])
                self.assertEqual(answer.status, 200)
        for connection in connections:
            connection.close()
        self.assertEqual(len(names), 64)
        listed = self.ask("GET", JOBS + "?pageSize=1000")["customJobs"]
        self.assertEqual({found["name"] for found in listed}, names)
        for name in names:
            self.ask("POST", f"/v1/{name}:cancel", {})
        self.assertTrue(wait_until(lambda: all(
            found["state"] in ENDED for found in self.ask("GET", JOBS + "?pageSize=1000")["customJobs"])))

    def test_what_a_client_spells_is_no_line_of_the_services_log(self):
        spec = {"display_name": "snake", "job_spec": {"worker_pool_specs": [{
            "replica_count": 1, "machine_spec": {"machine_type": "n1-standard-4"}, "container_spec": {
                "image_uri": "local", "command": ["sh", "-c", "true"], "env": [{"name": "TWICE", "value": v} for v in "ab"]}}]}}
        made = self.ask("POST", JOBS, spec)
        self.await_state(made["name"].rsplit("/", 1)[1], "JOB_STATE_SUCCEEDED")
        self.assertEqual(made["displayName"], "snake")
        self.assertNotIn("warning", self.service.said())
        logs = [os.path.join(folder, "runner.log") for folder, _, names in os.walk(self.state) if "runner.log" in names]
        with open(logs[0], encoding="utf-8") as file:
            said = file.read()
        self.assertIn("TWICE is there already", said)
        self.assertNotIn("should be spelled", said)

    def test_labels_are_bounded(self):
        labels = {f"k{i}": "v" for i in range(65)}
        error = self.fails("POST", JOBS, job(labels=labels), 400, "INVALID_ARGUMENT")
        self.assertIn("must be at most 64 labels, got 65", error["message"])
        del labels["k64"]
        self.assertEqual(self.ask("POST", JOBS, job(labels=labels))["labels"], labels)


class Engines(ServiceTest):
    def test_jobs_run_on_hosts_that_ssh_reaches(self):
        carry, hosts = (os.path.join(self.dir, name) for name in ("carry", "hosts"))
        with open(carry, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/bash\necho "$1" >>{self.dir}/reached\nexec sh -c "$2"\n')
        os.chmod(carry, 0o755)
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("one slots=8\n")
        self.serve("--engine=ssh", f"--hostfile={hosts}", f"--ssh-command={carry}", "--grace=7")
        number = self.create("echo here", machine="n1-standard-96")  # of the room on hosts nothing is known
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        with open(os.path.join(self.dir, "reached"), encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["one"])

    def test_options_of_engines_belong_together(self):
        for flags in (["--engine=ssh"], ["--hostfile=x"], ["--slurm-partition=x"], ["--engine=ssh", "--hostfile=/nowhere"]):
            run = subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0", *flags], env=self.env, capture_output=True, text=True,
                                 timeout=LONG, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == "__main__":
    unittest.main()
