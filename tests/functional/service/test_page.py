"""The page of a service, in headless Chromium: what it shows, that it follows, and that it does nothing else."""

import json
import os
import re
import shutil
import sys
import tempfile
import unittest

import browser
from served import JOBS, PLACE, ServiceTest, job, pool, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import prometheus  # noqa: E402

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
METRIC = ("import json, os, sys\n"
          "path = os.environ['CLOUD_ML_HP_METRIC_FILE']\n"
          "os.makedirs(os.path.dirname(path), exist_ok=True)\n"
          "rate = [word.split('=')[1] for word in sys.argv if word.startswith('--rate=')][0]\n"
          "open(path, 'w').write(json.dumps({'loss': rate, 'global_step': '1', 'timestamp': 1, 'trial': os.environ['CLOUD_ML_TRIAL_ID']}) + '\\n')\n")
SERVERS = {"replicaCount": 1, "machineSpec": {"machineType": "n1-highcpu-16"},
           "containerSpec": {"imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"}}


class Page(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="summand-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.browser = browser.Browser(cls.folder)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.browser.open("about:blank")
        self.browser.set_size(1280, 900)
        self.browser.set_scheme("light")
        self.browser.requests()
        self.browser.log("browser")

    def tearDown(self):
        folder = os.environ.get("TEST_SCREENSHOTS")     # for whoever wants to look
        if folder:
            self.browser.save(os.path.join(folder, self._testMethodName + ".png"))

    def show(self, path=""):
        self.browser.open(f"{self.service.url}/#/{path}")

    def name(self, number):
        return f"{JOBS}/{number}".removeprefix("/v1/")

    def check_silence(self):
        """Nothing left the origin, and neither scripts nor the policy had anything to say."""
        asked = [url for url in self.browser.requests() if not url.startswith(("chrome:", "data:", "about:"))]
        self.assertTrue(asked)
        self.assertEqual([url for url in asked if not url.startswith(self.service.url + "/")], [])
        self.assertEqual(self.browser.log("browser"), [])

    def test_jobs_are_listed_found_opened_and_cancelled_by_keyboard(self):
        self.serve()
        running = self.create("sleep 300", name="long one", labels={"team": "blue"})
        self.await_state(running, "JOB_STATE_RUNNING")
        spec = job('mkdir -p "$AIP_MODEL_DIR"; echo "<b>saved" >"$AIP_MODEL_DIR/../<b>.txt"; exit 3', "broken")
        spec["jobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket"}
        broken = self.ask("POST", JOBS, spec)["name"].rsplit("/", 1)[1]
        self.await_state(broken, "JOB_STATE_FAILED")
        page = self.browser
        self.show()
        page.wait_for_text("exited with a non-zero status of 3", "table")
        self.assertEqual(page.run("return [...document.querySelectorAll('tbody tr')].map(row => row.querySelector('a').innerText)"),
                         ["broken", "long one"])
        page.press("/", "l", "o", "n", "g")
        page.wait("return document.querySelectorAll('tbody tr').length === 1")
        self.assertEqual(page.run("return document.activeElement.type"), "search")
        page.press("TAB", "ENTER")
        page.wait_for_text("workerpool0-0")
        self.assertIn("long one", page.run("return document.title"))
        self.assertIn("team: blue", page.text())
        self.assertEqual(page.run("return document.activeElement.id"), "content")
        for _ in range(20):  # to the button, through whatever comes before it
            page.press("TAB")
            if page.run("return document.activeElement.id") == "cancel":
                break
        page.press("ENTER")
        page.wait("return document.querySelector('dialog').open")
        self.assertEqual(page.run("return document.activeElement.innerText"), "Let it run")
        page.press("ESCAPE")
        page.wait("return !document.querySelector('dialog').open")
        self.assertEqual(self.state_of(running), "JOB_STATE_RUNNING")
        page.press("ENTER")
        page.wait("return document.querySelector('dialog').open")
        page.press("TAB", "ENTER")
        page.wait_for_text("Cancelled")
        self.assertEqual(self.state_of(running), "JOB_STATE_CANCELLED")
        self.show(self.name(broken) + "/files")
        page.wait_for_text("<b>.txt", "table")
        page.click("table button")
        page.wait_for_text("is saved", "#announcement")
        self.check_silence()

    def test_logs_follow_and_are_searched(self):
        self.serve()
        go = os.path.join(self.dir, "go")
        number = self.create(f"for i in $(seq 700); do echo line $i; done; echo odd thing >&2; until [ -e {go} ]; do sleep 0.1; done; "
                             "echo the end; sleep 300")
        page = self.browser
        self.await_state(number, "JOB_STATE_RUNNING")
        self.show(self.name(number) + "/logs")
        page.wait_for_text("odd thing", ".lines")
        self.assertNotIn("the end", page.text(".lines"))
        page.wait("const l = document.querySelector('.lines'); return l.scrollHeight - l.scrollTop - l.clientHeight < 5")
        open(go, "w").close()
        page.wait_for_text("the end", ".lines")
        page.wait("const l = document.querySelector('.lines'); return l.scrollHeight - l.scrollTop - l.clientHeight < 5")
        self.assertNotIn("line 100\n", page.text(".lines"))
        page.click(".more button")
        page.wait_for_text("line 100", ".lines")
        texts = page.run("return [...document.querySelectorAll('.said')].map(line => line.innerText)")
        lines = [text for text in texts if text.startswith("line ")]
        self.assertEqual(lines, [f"line {i}" for i in range(1, 701)])
        page.type("[data-search]", "line 33")
        page.wait("return document.querySelectorAll('.line').length === 11")
        self.assertEqual(page.run("return [...new Set([...document.querySelectorAll('mark')].map(mark => mark.innerText))]"), ["line 33"])
        self.assertIn("q=line+33", page.run("return location.hash"))
        self.show(self.name(number) + "/logs?severe=1")
        page.wait("return document.querySelectorAll('.line').length === 1")
        self.assertIn("odd thing", page.text(".lines"))
        self.check_silence()

    def test_hostile_texts_are_texts(self):
        self.serve()
        number = self.create(f"printf '%s\\n' '{HOSTILE.replace(chr(39), chr(34))}'; "
                             f"echo 'status {HOSTILE.replace(chr(39), chr(34))}' >&$SUMMAND_NOTIFY_FD; sleep 300", name=HOSTILE)
        self.await_state(number, "JOB_STATE_RUNNING")
        page = self.browser
        self.show()
        page.wait_for_text("<img src=x")
        for tab in ("replicas", "logs", "plan", "description"):
            self.show(f"{self.name(number)}/{tab}")
            page.wait_for_text("<img src=x", "main")
            self.assertEqual(page.run("return document.querySelectorAll('main img, main script, main [onerror]').length"), 0)
        self.assertIn(HOSTILE, page.run("return document.title"))  # as its name, not by its script
        page.open(f"{self.service.url}/#/%3Cimg%20src=x%3E/../x/y/customJobs/1?q=%22%3E")
        page.wait_for_text("no such resource")
        asked = [url for url in self.browser.requests() if url.endswith("/x")]
        self.assertEqual(asked, [])
        self.assertEqual(page.run("try { document.body.innerHTML = '<p>x</p>'; return 'made' } catch (error) { return error.name }"), "TypeError")

    def test_progress_and_reduction_servers_are_live(self):
        self.serve("--oversubscribe", "--ready-timeout=120", "--metrics=127.0.0.1:0")
        script = ("for i in 1 2 3 4 5 6 7 8 9; do echo progress $i 10 epochs >&$SUMMAND_NOTIFY_FD; "
                  "summand-perf allreduce --group=g$i --nranks=2 --rank=$RANK --sizes=1M --iters=20 >/dev/null || exit; sleep 0.4; done; sleep 300")
        spec = job(script, "reduced")
        spec["jobSpec"]["workerPoolSpecs"] += [pool(script), SERVERS]
        number = self.ask("POST", JOBS, spec)["name"].rsplit("/", 1)[1]
        page = self.browser
        self.show(self.name(number) + "/servers")
        page.wait("const b = document.querySelector('[role=progressbar]'); return b && Number(b.getAttribute('aria-valuenow')) >= 20")
        page.wait("return [...document.querySelectorAll('polyline')].some(line => line.getAttribute('points').split(' ').length > 1)")
        page.wait("const c = document.querySelector('[aria-label^=Throughput]'); return c && /[kMG]B\\/s/.test(c.getAttribute('aria-label'))")
        for text in ("Window in use", "Weights", "10 Gbit/s", "Slowest rank"):
            page.wait_for_text(text)
        record = self.ask("GET", f"{JOBS}/{number}/replicas")
        server = [replica for replica in record["replicas"] if replica["role"] == "reduction server"][0]
        self.assertGreater(int(server["figures"]["received_bytes"]), 1 << 20)
        self.assertEqual(record["progress"]["unit"], "epochs")
        found = re.search(r"metrics: http://(\S+)/metrics", self.service.said())
        moved = prometheus.read(found[1]).value("summand_job_server_received_bytes_total", job=number, replica="workerpool2-0")
        self.assertGreater(moved, 1 << 20)
        self.check_silence()

    def test_why_a_job_has_lost_its_room(self):
        """Another one needs it, or hosts are left out; with what can be done."""
        self.serve("--cpus=8", "--memory=512G", "--gpus=0", "--grace=5")
        low = self.create("sleep 300", "low", {"summand-preemption": "requeue"}, "n1-standard-8")
        self.await_state(low, "JOB_STATE_RUNNING")
        self.show(self.name(low))
        self.browser.wait_for_text("Runs for")
        high = self.create("sleep 300", "high", {"summand-priority": "9"}, "n1-standard-8")
        self.browser.wait_for_text("high needed its room. It waits again", ".note")
        self.browser.wait_for_text("write checkpoints", ".note")
        self.browser.click(".note a")
        self.browser.wait_for_text("high", "h1")
        self.ask("POST", f"{JOBS}/{high}:cancel", {})
        self.await_state(low, "JOB_STATE_RUNNING")
        self.show(self.name(low))
        self.browser.wait_for_text("It runs again, from its start.", ".note")
        folders = os.path.join(self.state, "jobs")
        record = next(path for name in os.listdir(folders) if name.startswith("low-") and os.path.exists(path := os.path.join(folders, name, "state.json")))
        wait_until(lambda: self.ask("GET", f"{JOBS}/{low}/replicas")["replicas"][0]["state"] == "RUNNING")
        with open(record, encoding="utf-8") as file:
            document = json.load(file)
        document["hostsLeftOut"] = "node-3 (3 failures in a row, until 2026-11-25 12:00:00 UTC)"     # as a runner writes it
        with open(record + ".other", "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.rename(record + ".other", record)
        self.assertIn("hostsLeftOut", self.ask("GET", f"{JOBS}/{low}/replicas"))
        self.browser.wait_for_text("Hosts left out, because replicas have failed there: node-3 (3 failures in a row", "#content")
        self.check_silence()

    def test_a_terminal(self):
        """By keyboard from the job into a shell and out again; control sequences are obeyed, and texts stay texts."""
        home = os.environ["HOME"]
        os.environ["HOME"] = self.dir       # shells have no start files
        self.addCleanup(os.environ.update, HOME=home)
        self.serve()
        number = self.ask("POST", JOBS, job("sleep 300", "shell", enableWebAccess=True))["name"].rsplit("/", 1)[1]
        page = self.browser
        self.show(self.name(number))
        page.wait("return document.querySelector('a.shell')")
        page.run("document.querySelector('a.shell').focus()")
        page.press("ENTER")
        page.wait("return document.activeElement.className === 'keys'")
        type_in = lambda text: page.press(*text, "ENTER")  # noqa: E731
        type_in("PS1='go> '; clear; echo $((6*7)) in $SUMMAND_REPLICA")
        page.wait("return /^42 in workerpool0-0$/m.test(document.querySelector('.rows').innerText)")
        type_in(r"printf '\033[31mred\033[0m \033[1;4mstrong\033[0m \033[48;5;196mon red\033[0m\n\033]0;title\007\033[2Cright\n'")
        page.wait("return document.querySelector('.ink-1')?.innerText === 'red' && document.querySelector('.bold.under')?.innerText === 'strong'")
        page.wait("return document.querySelector('.paper-9')?.innerText === 'on red' && /^  right$/m.test(document.querySelector('.rows').innerText)")
        type_in("echo '" + HOSTILE.replace("'", '"') + "'")
        page.wait("return document.querySelector('.rows').innerText.includes('<img src=x onerror=')")
        self.assertEqual(page.run("return document.querySelectorAll('main img, main script').length"), 0)
        type_in(r"printf '\033[?1049h\033[2;3Hfull\033[6n'; read -rsd R place; printf '\033[?1049l'; echo ${place#*[} end")
        page.wait("return /^2;7 end$/m.test(document.querySelector('.rows').innerText)")     # where the cursor was on the other screen
        self.assertIn("42 in workerpool0-0", page.text(".rows"))
        type_in("stty size")
        before = page.wait("return document.querySelector('.rows').innerText.match(/^(\\d+) (\\d+)$/m)")
        page.set_size(700, 600)
        page.wait("const r = document.querySelectorAll('.rows > div').length; return r !== Number(arguments[0])", before[1])
        type_in("clear; seq 300; echo now $(stty size)")
        after = page.wait("return document.querySelector('.rows').innerText.match(/^now (\\d+) (\\d+)$/m)")
        self.assertLess(int(after[2]), int(before[2]))
        self.assertEqual(int(after[1]), page.run("return document.querySelectorAll('.rows > div').length"))
        page.wait("return /^1$/m.test(document.querySelector('.history').textContent) || document.querySelector('.history').firstChild.textContent.trim() !== ''")
        page.wait_for_text("300", "[aria-label='What the shell says']")     # is read out, a moment later
        type_in("(echo naps; exec sleep 300)")
        page.wait("return /^naps$/m.test(document.querySelector('.rows').innerText)")     # before that Ctrl-C would end nothing
        page.run("[...document.querySelectorAll('.tools button')].find(button => button.innerText === 'Ctrl-C').click()")
        type_in("echo; echo status $?")
        page.wait("return /^status 0$/m.test(document.querySelector('.rows').innerText)")
        page.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": browser.KEYS["SHIFT"]}, {"type": "keyDown", "value": browser.KEYS["TAB"]},
            {"type": "keyUp", "value": browser.KEYS["TAB"]}, {"type": "keyUp", "value": browser.KEYS["SHIFT"]}]}]})
        self.assertNotEqual(page.run("return document.activeElement.className"), "keys")
        page.click(".screen")
        type_in("exit 5")
        page.wait_for_text("The shell has ended with 5.", "[role=alert]")
        page.set_size(360, 740, True)
        page.click("#again")
        page.wait("return document.querySelectorAll('.rows > div').length > 5 && document.querySelector('.rows').innerText.trim()")
        self.assertLessEqual(page.run("return document.documentElement.scrollWidth"), 360)
        page.run("location.hash = '#/'")
        page.wait_for_text("Jobs", "h1")
        self.check_silence()

    def test_trials_are_drawn(self):
        self.serve("--oversubscribe")
        study = {"displayName": "tuned", "maxTrialCount": 4, "parallelTrialCount": 4,
                 "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
                               "parameters": [{"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 0.9}}]},
                 "trialJobSpec": {"workerPoolSpecs": [{"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"},
                                                       "containerSpec": {"imageUri": "local", "command": ["python3", "-c", METRIC]}}]}}
        name = self.ask("POST", PLACE + "/hyperparameterTuningJobs", study)["name"]
        self.assertTrue(wait_until(lambda: self.ask("GET", "/v1/" + name)["state"] == "JOB_STATE_SUCCEEDED"))
        self.show(name)
        page = self.browser
        page.wait("return document.querySelectorAll('circle.dot').length === 4 && document.querySelectorAll('circle.chosen').length === 1")
        losses = page.run("return [...document.querySelectorAll('tbody tr')].map(row => Number(row.cells[2].innerText))")
        self.assertEqual(losses, sorted(losses))
        self.assertIn("of 4 trials", page.run("return document.querySelector('svg.chart').getAttribute('aria-label')"))
        self.check_silence()

    def test_light_dark_and_a_phone(self):
        self.serve()
        number = self.create("echo " + "long" * 60, name="a-name-without-blanks-" * 5)
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        page = self.browser
        bright = {}
        self.show()
        page.wait_for_text("a-name")
        for scheme in ("light", "dark"):
            page.set_scheme(scheme)
            bright[scheme] = page.run("const c = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number); return c[0] + c[1] + c[2]")
        self.assertGreater(bright["light"], 600)
        self.assertLess(bright["dark"], 150)
        page.click("#theme")  # light, whatever the system has
        page.wait("const c = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number); return c[0] + c[1] + c[2] > 600")
        self.assertIn("light", page.text("#theme"))
        page.set_size(360, 740, True)
        for path in ("", *(f"{self.name(number)}/{tab}" for tab in ("replicas", "logs", "plan", "description"))):
            self.show(path)
            page.wait_for_text("a-name")
            page.wait("return !document.querySelector('main').innerText.includes('Loading')")
            self.assertLessEqual(page.run("return document.documentElement.scrollWidth"), 360, path)

    def test_a_token_is_asked_for(self):
        token = os.path.join(self.dir, "token")
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("sesame\n")
        self.serve("--token-file=" + token)
        self.show()
        page = self.browser
        page.type("#token", "wrong")
        page.press("ENTER")
        page.wait("return document.querySelector('dialog').open && document.querySelector('#token').value === ''")
        page.type("#token", "sesame")
        page.press("ENTER")
        page.wait_for_text("There are no jobs yet.")
        self.assertEqual(page.run("return document.cookie"), "")
        self.assertFalse(page.run("return document.documentElement.outerHTML.includes('sesame')"))


if __name__ == "__main__":
    browser.require_or_skip()
    unittest.main(verbosity=2)
