"""Headless Chromium, driven by WebDriver's requests over plain HTTP."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time

LONG = 60  # seconds: nothing here takes that long unless it hangs
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"TAB": "\ue004", "ENTER": "\ue007", "ESCAPE": "\ue00c", "SPACE": "\ue00d", "END": "\ue010", "SHIFT": "\ue008"}


def require_or_skip():
    """The programs; without them the test is skipped."""
    for program in ("chromedriver", "chromium"):
        if not shutil.which(program):
            print(f"skipped: there is no {program} here")
            sys.exit(77)


class Browser:
    """One window. All that it asks of whom is in `requests()`."""

    def __init__(self, folder, width=1280, height=900):
        self.driver = subprocess.Popen(["chromedriver", "--port=0", "--allowed-ips=127.0.0.1"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        self.port = None
        self.session = None
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.port = int(found[1])
                break
        words = ["--headless=new", "--disable-gpu", f"--window-size={width},{height}", "--hide-scrollbars", "--no-first-run",
                 f"--user-data-dir={os.path.join(folder, 'profile')}", "--disable-background-networking", "--disable-component-update",
                 "--disable-dev-shm-usage"]
        if os.getuid() == 0:
            words.append("--no-sandbox")
        made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": words},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"}}}})
        self.session = made["sessionId"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        prefix = f"/session/{self.session}" if self.session else ""
        connection.request(method, prefix + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}")
        return value

    def close(self):
        try:
            if self.session:
                self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=LONG)
            self.driver.stdout.close()

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """What a function's body returns, in the page."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, *args, seconds=LONG):
        deadline = time.monotonic() + seconds
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"the page must come to {script!r} {args}, shows {self.text()!r}")
            time.sleep(0.05)

    def wait_for_text(self, text, selector="body"):
        return self.wait("const e = document.querySelector(arguments[1]); return e && e.innerText.includes(arguments[0])", text, selector)

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0])?.innerText", selector)

    def find(self, selector):
        return self.ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.wait("return document.querySelector(arguments[0])", selector)
        self.ask("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.wait("return document.querySelector(arguments[0])", selector)
        self.ask("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys):
        """Keys on whatever has the focus."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def devtools(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def set_size(self, width, height, is_phone=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)

    def set_scheme(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def log(self, kind):
        return self.ask("POST", "/se/log", {"type": kind})

    def requests(self):
        """The addresses that were asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def save(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))
