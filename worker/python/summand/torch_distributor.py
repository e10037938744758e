"""Runs a function or a script in several processes of this machine, as Spark's TorchDistributor does."""

import ctypes
import glob
import json
import logging
import operator
import os
import pickle
import re
import signal
import subprocess
import sys

from summand import places
from summand.error import SummandError
from summand.own_folder import own_folder

# What a terminal would obey; a notebook shows colours, and takes no orders.
_CONTROLS = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_logger = logging.getLogger(__name__)
# How torch-run says that a job has failed: the runner's sentence, and then more.
_REASON = re.compile(r"\b(The replica workerpool\d-\d+ (?:exited|was killed|could not|was not)\b.*|"
                     r"The job (?:did not end|was not running)\b.*)")
_PR_SET_PDEATHSIG = 1
_OWN = "summand: "  # what torch-run says of itself begins so

# What each process is started with. It has the caller's sys.path, and so finds what the function refers to. Processes that
# multiprocessing spawns load it again, under another name.
_PROGRAM = """import sys
sys.path[:] = {path!r}
if __name__ == "__main__":
    from summand.rank import main
    main({folder!r})
"""


class RankTraceback(Exception):
    """The cause of an exception that was raised in another process: where that was."""

    def __str__(self):
        return f'\n"""\n{self.args[0]}"""'


def _cloudpickle():
    try:
        import cloudpickle
    except ImportError as error:
        raise SummandError(0, "cloudpickle is needed to run functions: python3-cloudpickle of Debian, or pip install "
                              "cloudpickle; a script needs none") from error
    return cloudpickle


def _count_gpus():
    """As torch-run counts them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return len(glob.glob("/dev/nvidia[0-9]*"))
    return len(given.split(",")) if given else 0


def _count(name, value, least):
    """The number, also if it is one of numpy's."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be {least} or more, got {number}")
    return number


def _check_switch(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


class TorchDistributor:
    """The parameters of Databricks and Spark, and some more.

    num_processes: ranks to start. local_mode: all are ranks of one node; else each is a node of its own, on this machine
    too. use_gpu: ranks get this machine's GPUs, or those of CUDA_VISIBLE_DEVICES. reduction_servers: started with the
    ranks; the function or script calls summand.ddp.register(model). env: more variables for the ranks. max_restarts: all
    start again when one fails. timeout: seconds for the whole job.
    """

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, *, reduction_servers=0, env=None, max_restarts=0,
                 timeout=None):
        _check_switch("local_mode", local_mode)
        _check_switch("use_gpu", use_gpu)
        self.num_processes, self.local_mode, self.use_gpu = _count("num_processes", num_processes, 1), local_mode, use_gpu
        self.reduction_servers = _count("reduction_servers", reduction_servers, 0)
        self.max_restarts = _count("max_restarts", max_restarts, 0)
        self.timeout = None if timeout is None else _count("timeout", timeout, 1)
        self.env = dict(env or {})
        if use_gpu:
            self._fit_to_gpus()

    def _fit_to_gpus(self):
        gpus = _count_gpus()
        if gpus == 0:
            raise RuntimeError("GPUs were unable to be found on the driver, which is this machine; use_gpu=False does without")
        if self.num_processes > gpus and not self.local_mode:
            raise RuntimeError(f"num_processes must be at most the number of GPUs, which is {gpus}: each process has one, "
                               f"got {self.num_processes}")
        if self.num_processes > gpus:
            _logger.warning("'num_processes' cannot be set to a value greater than the number of available GPUs on the "
                            "driver, which is %d. 'num_processes' was reset to be equal to the number of available GPUs.", gpus)
            self.num_processes = gpus

    def run(self, train_object, *args, **kwargs):
        """Runs a function with these arguments, or the script at a path with these words, in every process.

        Returns what the function returned on rank 0; None for a script. An exception of a rank is raised here, with that
        rank's traceback as its cause and its number as its attribute rank. What ranks print goes to sys.stdout meanwhile.
        """
        if callable(train_object):
            return self._run_function(train_object, args, kwargs)
        if not isinstance(train_object, (str, os.PathLike)):
            raise TypeError(f"the object to run must be a function or the path of a script, got {train_object!r}")
        if kwargs:
            raise ValueError("Running pytorch file does not support key-word type arguments.")
        path = os.fspath(train_object)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"the script must be a file, got {path!r}")
        _Job(self, [path, *map(str, args)]).run()
        return None

    def _run_function(self, function, args, kwargs):
        with own_folder("summand-torch-") as folder:
            _write_function(folder, (function, args, kwargs))
            program = os.path.join(folder, "train.py")
            with open(program, "w", encoding="utf-8") as file:
                # Of a file the folder comes first, in place of the entry for "where I was called from".
                package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
                file.write(_PROGRAM.format(path=[*sys.path, package], folder=folder))
            job = _Job(self, [program])
            try:
                job.run()
            except SummandError as error:
                _raise_of_rank(folder, job, error)
            return _read_value(folder, self)


# ---- the function, its value, its exceptions: summand/rank.py is the other side ----

def _write_function(folder, what):
    cloudpickle = _cloudpickle()
    try:
        with open(os.path.join(folder, "function.pickle"), "wb") as file:
            cloudpickle.dump(what, file)
    except OSError:
        raise
    except Exception as error:  # pickle has many kinds
        raise pickle.PicklingError(f"the function, what it refers to and its arguments must go to other processes, and cannot "
                                   f"be pickled: {type(error).__name__}: {error}") from error


def _read_value(folder, distributor):
    try:
        with open(os.path.join(folder, "value.pickle"), "rb") as file:
            job_dir = pickle.load(file)
            try:
                value = pickle.load(file)
            except Exception as error:  # a class that is not here, or one that pickle cannot make again
                raise pickle.UnpicklingError("the value that rank 0 returned has come, and cannot be loaded here: "
                                             f"{type(error).__name__}: {error}") from error
    except FileNotFoundError:
        raise SummandError(0, "rank 0 ended with status 0 before its function returned, so no value came back") from None
    for rank in range(distributor.num_processes):
        if not os.path.exists(os.path.join(folder, f"ended-{rank}")):
            _logger.warning("rank %d ended with status 0 before its function returned", rank)
    if distributor.reduction_servers and job_dir and not _received(job_dir):
        _logger.warning("the reduction servers were sent nothing: the function must call summand.ddp.register(model)")
    return value


def _received(job_dir):
    """The bytes that came to the job's reduction servers."""
    with open(os.path.join(job_dir, "summary.json"), encoding="utf-8") as file:
        replicas = json.load(file)["replicas"]
    return sum(int(each.get("results", {}).get("bytes_received", 0)) for each in replicas)


def _raise_of_rank(folder, job, error):
    """Raises what ended the job: the exception of the rank that failed first, else the error.

    The runner names the rank that exited first, which may have failed by the other's failure while that one was still ending. One
    that was killed has told nothing."""
    reports = []
    for path in glob.glob(os.path.join(glob.escape(folder), "error-*.pickle")):
        with open(path, "rb") as file:
            reports.append(pickle.load(file))
    cause = job.failed_rank()
    if not reports or (cause is not None and all(each["rank"] != cause for each in reports)):
        raise error
    report = min(reports, key=lambda each: each["time"])
    exception = None
    if report["exception"]:
        try:
            exception = pickle.loads(report["exception"])
        except Exception:  # a class that is not here
            pass
    if not isinstance(exception, BaseException):
        exception = SummandError(0, f"rank {report['rank']}: {report['summary']}")
    try:
        exception.rank = report["rank"]
    except AttributeError:
        pass
    raise exception from RankTraceback(f"rank {report['rank']}:\n{report['traceback']}")


# ---- the job ----

class _Job:
    """One run of torch-run."""

    def __init__(self, distributor, words):
        self._words = [places.program(), "torch-run", f"--num-processes={distributor.num_processes}",
                       f"--local-mode={distributor.local_mode}", f"--use-gpu={distributor.use_gpu}",
                       f"--reduction-servers={distributor.reduction_servers}", f"--max-restarts={distributor.max_restarts}"]
        if distributor.timeout is not None:
            self._words.append(f"--timeout={distributor.timeout}s")
        self._words += [f"--env={name}={value}" for name, value in distributor.env.items()]
        self._words += ["--no-python", "--", sys.executable or "python3", "-u", *words]
        self._said = []  # of its failure, and not shown
        self._reason = ""

    def run(self):
        """Ends with the job, and the job with it. SummandError: the job failed."""
        process = _start(self._words)
        with process.stdout:
            try:
                self._show(process)
            except BaseException:  # KeyboardInterrupt, most of the time
                self._end(process)
                raise
            code = process.wait()
        if code:
            text = "".join(self._said).strip()
            text = text[len(_OWN):] if text.startswith(_OWN) else text
            if self._reason not in text:
                text = f"{self._reason}\n{text}"
            raise SummandError(0, text or f"the job was ended: torch-run exited with status {code}")

    def _show(self, process):
        """Through Python's sys.stdout, which is a cell's output in a notebook."""
        is_terminal = hasattr(sys.stdout, "isatty") and sys.stdout.isatty()
        for line in process.stdout:
            line = line.decode(errors="replace")
            found = _REASON.search(line)
            if found and not self._reason:
                self._reason = found[1]
            is_ours = line.startswith(_OWN) and "warning: " not in line and "OMP_NUM_THREADS" not in line
            if self._said or is_ours:
                self._said.append(line)
                continue
            if sys.stdout is not None:  # as in a program without a console
                sys.stdout.write(_CONTROLS.sub("", line) if is_terminal else line)
                sys.stdout.flush()

    @staticmethod
    def _end(process):
        """Asks it to end; when asked again meanwhile, at once."""
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                for _ in process.stdout:  # what is still said is not shown
                    pass
                process.wait()
            except KeyboardInterrupt:
                continue

    def failed_rank(self):
        """The rank that the runner names as the cause; None: it names none."""
        found = re.match(r"The replica workerpool([01])-(\d+) ", self._reason)
        return int(found[1]) + int(found[2]) if found else None


def _start(words):
    """A process that ends with the thread that starts it, which waits for it."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def end_with_parent():
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    # A session of its own: Ctrl-C is told by us, once, whether it comes from a terminal or a notebook.
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            start_new_session=True, preexec_fn=end_with_parent)
