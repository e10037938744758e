"""Jobs of worker pools, through the commands of `summand custom-jobs`: what they refuse is raised with their words."""

import json
import math
import os
import subprocess
import sys

from summand import places
from summand.error import SummandError

_ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}
_NOT_YET = 124  # the exit code of `wait` whose time is over


def _call(*words, text=None):
    return subprocess.run([places.program(), "custom-jobs", *words], input=text, stdin=None if text else subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace")


def _checked(*words, text=None):
    """What the command prints; its warnings go to sys.stderr."""
    done = _call(*words, text=text)
    if done.returncode:
        raise SummandError(0, _without_program(done.stderr) or f"summand custom-jobs {words[0]} exited with status {done.returncode}")
    for line in done.stderr.splitlines(keepends=True):
        if "warning: " in line:
            sys.stderr.write(line)
    return done.stdout


def _without_program(text):
    return "\n".join(line[len("summand: "):] if line.startswith("summand: ") else line for line in text.strip().splitlines())


def _camel(value):
    """Vertex AI's Python library writes the fields of a worker pool in snake_case."""
    if isinstance(value, dict):
        return {_camel_word(key): _camel(each) for key, each in value.items()}
    return [_camel(each) for each in value] if isinstance(value, (list, tuple)) else value


def _camel_word(word):
    first, *rest = str(word).split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _flags(options):
    """grace=5, oversubscribe=True -> --grace=5 --oversubscribe."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"{flag}={'true' if value else 'false'}")
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={each}" for each in value]
        elif value is not None:
            words.append(f"{flag}={value}")
    return words


class CustomJob:
    """A job of worker pools on this machine.

        CustomJob("job.yaml")                                       # the path of whatever `summand custom-jobs create` takes
        CustomJob({"displayName": ..., "jobSpec": {...}})           # the same as a dictionary
        CustomJob(display_name="mine", worker_pool_specs=[...])     # as google-cloud-aiplatform has it
    """

    def __init__(self, spec=None, worker_pool_specs=None, base_output_dir=None, *, display_name=None, labels=None):
        if isinstance(spec, (list, tuple)):
            spec, worker_pool_specs = None, spec
        if worker_pool_specs is not None:
            if not isinstance(worker_pool_specs, (list, tuple)):
                raise TypeError(f"worker_pool_specs must be a list of worker pools, got {type(worker_pool_specs).__name__}")
            job = {"workerPoolSpecs": [_camel(each) for each in worker_pool_specs]}
            if base_output_dir:
                job["baseOutputDirectory"] = {"outputUriPrefix": os.fspath(base_output_dir)}
            spec = {"displayName": display_name or spec or "custom-job", "labels": dict(labels or {}), "jobSpec": job}
            base_output_dir = display_name = labels = None
        if not isinstance(spec, (str, os.PathLike, dict)):
            raise TypeError("the spec must be a path, a dictionary, or a list of worker pools, got "
                            f"{type(spec).__name__}")
        if base_output_dir:
            raise TypeError("base_output_dir must come with worker_pool_specs; a spec has baseOutputDirectory")
        self._options = {"display_name": display_name,
                         "labels": ",".join(f"{key}={value}" for key, value in (labels or {}).items()) or None}
        if isinstance(spec, dict):
            self._words, self._text = ["-"], json.dumps(spec)
        else:
            if not os.path.exists(spec):
                raise FileNotFoundError(f"the spec must be a file, got {os.fspath(spec)!r}")
            path = os.fspath(spec)
            self._words, self._text = [os.path.join(".", path) if path.startswith("-") else path], None  # it is no option
        self._resource = None

    # ---- jobs that there are ----

    @classmethod
    def _of(cls, resource):
        job = cls.__new__(cls)
        job._options, job._words, job._text, job._resource = {}, [], None, resource
        return job

    @classmethod
    def get(cls, name):
        """The job of an id, a resource name, a display name or what one of them begins with."""
        return cls._of(json.loads(_checked("describe", "--format=json", "--", str(name))))

    @classmethod
    def list(cls, filter=None, limit=None):
        """Those in the job store, the newest first; filter is gcloud's, such as 'state=JOB_STATE_FAILED'."""
        words = [f"--filter={filter}"] if filter else []
        words += [f"--limit={limit}"] if limit is not None else []
        return [cls._of(each) for each in json.loads(_checked("list", "--format=json", *words) or "[]")]

    # ---- the life of one ----

    def submit(self, **options):
        """Starts the job, and returns at once; options are the flags of `summand custom-jobs create`: grace=5."""
        if self._resource:
            raise SummandError(0, f"the job must not have been submitted before, and is {self.resource_name}")
        if not self._words:
            raise SummandError(0, "the job must be one that was made from a spec")
        flags = _flags({**self._options, **options})
        self._resource = json.loads(_checked("create", *self._words, "--format=json", *flags, text=self._text))
        return self

    def run(self, **options):
        """Starts the job, prints what its replicas say to sys.stdout, and returns when it has succeeded.

        SummandError: it failed or was cancelled, and why. Interrupted, it cancels the job and waits for its end.
        """
        self.submit(**options)
        try:
            for line in self.logs():
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            return self.wait()
        except KeyboardInterrupt:
            if self.state not in _ENDED:
                self.cancel()
                _call("wait", self.name)
            raise

    def logs(self, task_name=None):
        """The lines of the job's stream, each when it comes, until the job has ended; task_name: only of that replica."""
        words = ["stream-logs", self.name, *([f"--task-name={task_name}"] if task_name else [])]
        process = subprocess.Popen([places.program(), "custom-jobs", *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
            error = process.stderr.read()
            if process.wait():
                raise SummandError(0, _without_program(error))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            process.stdout.close()
            process.stderr.close()

    def wait(self, timeout=None):
        """Returns when the job has succeeded. SummandError: it failed or was cancelled. TimeoutError: not in so many seconds."""
        if timeout is not None and math.isnan(timeout):
            raise ValueError("timeout must be a number of seconds, got nan")
        is_endless = timeout is None or timeout == math.inf
        words = [] if is_endless else [f"--timeout={max(1, math.ceil(timeout))}"]  # 0 would be without end
        done = _call("wait", self.name, *words)
        if done.returncode == _NOT_YET:
            raise TimeoutError(f"the job {self.name} must have ended within {timeout} seconds, and has not: {self.state}")
        state, error = self.state, self.error
        if state == "JOB_STATE_SUCCEEDED":
            return state
        raise SummandError(0, error or (f"the job {self.name} ended as {state}" if state in _ENDED else
                                        _without_program(done.stderr)))

    def cancel(self):
        """Asks the job to end; returns before it has."""
        _checked("cancel", self.name)

    def delete(self):
        """Forgets a job that has ended, and removes its directory."""
        _checked("delete", self.name)

    # ---- what is known of it ----

    def _known(self):
        if not self._resource:
            raise SummandError(0, "the job must have been submitted: run() or submit() does that")
        return self._resource

    def _now(self):
        """What can change is asked for until it has ended."""
        if self._known().get("state") not in _ENDED or "jobDirectory" not in self._resource:
            self._resource = json.loads(_checked("describe", self.resource_name, "--format=json"))
        return self._resource

    @property
    def resource(self):
        """The CustomJob as `describe` prints it."""
        return self._now()

    @property
    def state(self):
        """JOB_STATE_PENDING, JOB_STATE_RUNNING, JOB_STATE_SUCCEEDED, JOB_STATE_FAILED, JOB_STATE_CANCELLED and others."""
        return self._now()["state"]

    @property
    def error(self):
        """Why it failed; None: it has not."""
        return self._now().get("error", {}).get("message")

    @property
    def resource_name(self):
        """projects/.../customJobs/ID"""
        return self._known()["name"]

    @property
    def name(self):
        """The id, of 19 digits."""
        return self.resource_name.rpartition("/")[2]

    @property
    def display_name(self):
        return self._known().get("displayName")

    @property
    def job_directory(self):
        """Where its logs and records are."""
        return self._now().get("jobDirectory")

    def __repr__(self):
        return f"<CustomJob {self.display_name} {self.name}>" if self._resource else "<CustomJob, not submitted>"
