"""How long tasks of this machine have waited for processors: what tests may ask before they judge how long something took."""


def waited():
    """Seconds in which some task of this machine has waited for a processor; None: the kernel does not say."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except OSError:
        return None


def was_quiet(before, seconds):
    """Whether tasks have waited for less than a quarter of the seconds since waited() was `before`."""
    return before is not None and waited() - before < seconds / 4
