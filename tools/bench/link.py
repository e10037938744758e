"""What a link carries, and what that costs both ends: iperf3."""

import json
import os
import shutil
import subprocess
import time

import lab
import systems


def missing():
    return None if shutil.which("iperf3") else "needs iperf3"


def finish(process):
    """What a process has printed, and its processor time."""
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    return out, usage.ru_utime + usage.ru_stime


def connect(nodes, sender, receiver, seconds):
    """Runs the client, again until the server listens."""
    words = ["iperf3", "-J", "-c", lab.address_of(receiver), "-t", str(seconds)]
    for _ in range(50):
        client = nodes.start(sender, words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        out, spent = finish(client)
        if client.returncode == 0:
            return out, spent
        time.sleep(0.1)
    raise systems.Failed(f"iperf3: {out.strip()}")


def measure(nodes, sender, receiver, seconds):
    """Bytes per second of TCP, the median of the receiver's intervals, and core-seconds for each GB: the
    sender's and the receiver's."""
    server = nodes.start(receiver, ["iperf3", "-J", "-s", "-1", "-i", "0.25", "-B", lab.address_of(receiver)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        _, sent_s = connect(nodes, sender, receiver, seconds)
        out, received_s = finish(server)
    finally:
        nodes.end([server])
    report = json.loads(out)
    rates = sorted(interval["sum"]["bits_per_second"] / 8 for interval in report["intervals"]
                   if interval["sum"]["seconds"] > 0.2)
    gb = report["end"]["sum_received"]["bytes"] / 1e9
    if not rates or gb <= 0:
        raise systems.Failed("iperf3: must receive something, got nothing")
    return {"bytes_per_s": rates[len(rates) // 2], "sender_s_per_gb": sent_s / gb, "receiver_s_per_gb": received_s / gb,
            "both_s_per_gb": (sent_s + received_s) / gb}
