"""What each process of a TorchDistributor runs: the function that the caller left in a folder."""

import json
import os
import pickle
import sys
import time
import traceback


def _write(path, *pickles):
    """There is never half a file."""
    with open(path + ".tmp", "wb") as file:
        for each in pickles:
            file.write(each)
    os.replace(path + ".tmp", path)


def _pickled(exception):
    """None: it cannot go to another process, or would end that too."""
    if not isinstance(exception, Exception):  # SystemExit, asyncio.CancelledError
        return None
    try:
        import cloudpickle
        text = cloudpickle.dumps(exception)
        pickle.loads(text)  # an exception with arguments of its own may come back as none
        return text
    except Exception:
        return None


def _report(path, rank, exception):
    """For the caller, and in the form of torch's @record for the runner."""
    # Without this file's own frame.
    place = exception.__traceback__.tb_next or exception.__traceback__
    text = "".join(traceback.format_exception(type(exception), exception, place))
    summary = "".join(traceback.format_exception_only(type(exception), exception)).strip()
    sys.stderr.write(text)
    _write(path, pickle.dumps({"rank": rank, "time": time.time(), "summary": summary, "traceback": text,
                               "exception": _pickled(exception.with_traceback(None))}))
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if error_file:
        with open(error_file, "w", encoding="utf-8") as file:
            json.dump({"message": {"message": summary, "extraInfo": {"py_callstack": text,
                                                                     "timestamp": str(int(time.time()))}}}, file)


def _job_dir():
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    return os.path.dirname(os.path.dirname(error_file)) if error_file else None


def _pickle_value(value):
    import cloudpickle
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise pickle.PicklingError(f"the value that rank 0 returns must go to another process, and cannot be pickled: "
                                   f"{type(error).__name__}: {error}") from error


def main(folder):
    rank, process = int(os.environ["RANK"]), os.getpid()
    error_path, ended_path = os.path.join(folder, f"error-{rank}.pickle"), os.path.join(folder, f"ended-{rank}")
    value_path = os.path.join(folder, "value.pickle")
    for path in (error_path, ended_path, *([value_path] if rank == 0 else [])):
        if os.path.exists(path):
            os.unlink(path)  # of the attempt before this one
    try:
        with open(os.path.join(folder, "function.pickle"), "rb") as file:
            function, args, kwargs = pickle.load(file)
        value = function(*args, **kwargs)
        if os.getpid() != process:
            return  # one that the function forked, and that returned from it too
        if rank == 0:
            _write(value_path, pickle.dumps(_job_dir()), _pickle_value(value))
    except KeyboardInterrupt:
        raise
    except BaseException as end:
        if os.getpid() != process:
            raise
        if not isinstance(end, SystemExit) or end.code not in (None, 0):
            _report(error_path, rank, end)
            sys.exit(end.code if isinstance(end, SystemExit) else 1)
    _write(ended_path)
