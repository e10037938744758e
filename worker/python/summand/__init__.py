"""Summand from Python.

    from summand import TorchDistributor, CustomJob     # run functions, scripts and jobs
    import summand.backend                              # torch.distributed's init_process_group("summand")
    import summand.ddp                                  # all-reduce of tensors, and a hook for DistributedDataParallel

specs/guide/python.md tells more. What is imported needs torch or libsummand only once it is used.
"""

import importlib

__version__ = "0.1.0"

_PLACES = {"CustomJob": "custom_job", "SummandError": "error", "TorchDistributor": "torch_distributor"}
__all__ = sorted(_PLACES)


def __getattr__(name):
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
