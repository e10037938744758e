"""axe-core (tests/clients/axe, from npm) finds nothing on the page that keeps people from using it: all views, and some in the dark and on a phone."""

import os
import shutil
import tempfile
import unittest

import browser
import npm
from served import JOBS, PLACE, ServiceTest, job, wait_until

LOOK = """window.axeFound = null;
axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((found) => {
    const tell = (list) => list.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
    window.axeFound = {violations: tell(found.violations), passes: found.passes.length};
});"""


class Axe(ServiceTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.browser = browser.Browser(folder)
        self.addCleanup(self.browser.close)
        with open(os.path.join(FOLDER, "node_modules", "axe-core", "axe.min.js"), encoding="utf-8") as file:
            self.axe = file.read()

    def look(self, view):
        self.browser.run(self.axe)
        self.browser.run(LOOK)
        found = self.browser.wait("return window.axeFound")
        self.assertEqual(found["violations"], [], view)
        self.assertGreater(found["passes"], 10, view)

    def test_all_views(self):
        self.serve()
        number = self.ask("POST", JOBS, job("echo trouble >&2; echo progress 1 4 epochs >&$SUMMAND_NOTIFY_FD; sleep 300", "runs",
                                            {"team": "blue"}, enableWebAccess=True))["name"].rsplit("/", 1)[1]
        failed = self.create("echo no such file >&2; exit 3", "failed")
        self.ask("POST", PLACE + "/hyperparameterTuningJobs", {
            "displayName": "tuned", "maxTrialCount": 2, "parallelTrialCount": 2, "trialJobSpec": job("exit 3", enableWebAccess=True)["jobSpec"],
            "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                          "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}})
        self.await_state(failed, "JOB_STATE_FAILED")
        wait_until(lambda: "webAccessUris" in self.ask("GET", f"{JOBS}/{number}"))
        tuned = self.ask("GET", PLACE + "/hyperparameterTuningJobs")["hyperparameterTuningJobs"][0]["name"]
        name = f"{JOBS}/{number}".removeprefix("/v1/")
        views = [("", "Jobs")] + [(f"{name}/{tab}", text) for tab, text in (
            ("replicas", "workerpool0-0"), ("logs", "trouble"), ("plan", "POOL"), ("files", "output"), ("description", "displayName"),
            ("terminal/workerpool0-0", "workerpool0-0"))]
        views += [(f"{JOBS}/{failed}".removeprefix("/v1/"), "no such file"), (tuned, "Trial")]
        for scheme, width, is_phone in (("light", 1280, False), ("dark", 1280, False), ("light", 360, True)):
            self.browser.set_scheme(scheme)
            self.browser.set_size(width, 800, is_phone)
            for path, text in views if scheme == "light" and not is_phone else views[:3] + views[-1:]:
                self.browser.open("about:blank")
                self.browser.open(f"{self.service.url}/#/{path}")
                self.browser.wait_for_text(text, "#content")
                self.look(f"{path} {scheme} {width}")


if __name__ == "__main__":
    browser.require_or_skip()
    FOLDER = npm.install("axe", 18)
    unittest.main()
