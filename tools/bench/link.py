"""What a link carries, and what that costs both ends: iperf3."""

import json
import os
import shutil
import subprocess

import lab
import listening
import systems

PORT = 5201         # iperf3's own
MESH_PORT = 6000


def missing():
    return None if shutil.which("iperf3") else "needs iperf3"


def finish(process):
    """What a process has printed, and its processor time."""
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    return out, usage.ru_utime + usage.ru_stime


def until_listening(server, port):
    """iperf3 does not say when it listens."""
    if not listening.wait_for(server, port):
        raise systems.Failed(f"iperf3: the server must listen at port {port}, got exit code {server.returncode}")


def send(nodes, sender, receiver, seconds):
    words = ["iperf3", "-J", "-c", lab.address_of(receiver), "-t", str(seconds)]
    client = nodes.start(sender, words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    out, spent = finish(client)
    if client.returncode:
        raise systems.Failed(f"iperf3: {out.strip()}")
    return spent


def measure(nodes, sender, receiver, seconds):
    """Bytes per second of TCP, the median of the receiver's intervals, and core-seconds for each GB: the
    sender's and the receiver's."""
    server = nodes.start(receiver, ["iperf3", "-J", "-s", "-1", "-i", "0.25", "-B", lab.address_of(receiver)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        until_listening(server, PORT)
        sent_s = send(nodes, sender, receiver, seconds)
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


def start_mesh_server(nodes, node, port):
    return nodes.start(node, ["iperf3", "-J", "-i", "0", "-s", "-1", "-B", lab.address_of(node), "-p", str(port)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def start_mesh_client(nodes, node, server, port, seconds):
    words = ["iperf3", "-J", "-i", "0", "--bidir", "-c", lab.address_of(server), "-p", str(port), "-t", str(seconds)]
    return nodes.start(node, words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def measure_mesh(nodes, workers, servers, seconds):
    """What it costs iperf3 to do what reduction servers do to the network: to receive from every worker and to
    send to every worker, all at once. Core-seconds of the servers' side for each GB received and GB sent."""
    pairs = [(worker, workers + server) for server in range(servers) for worker in range(workers)]
    listening = [start_mesh_server(nodes, server, MESH_PORT + worker) for worker, server in pairs]
    clients = []
    spent = received = sent = 0
    try:
        for (worker, _), server in zip(pairs, listening):
            until_listening(server, MESH_PORT + worker)
        clients = [start_mesh_client(nodes, worker, server, MESH_PORT + worker, seconds) for worker, server in pairs]
        for client in clients:
            if client.wait() != 0:
                raise systems.Failed(f"iperf3 between all: exit {client.returncode}")
        for server in listening:
            out, seconds_spent = finish(server)
            end = json.loads(out)["end"]
            spent += seconds_spent
            received += end["sum_received"]["bytes"]
            sent += end["sum_sent_bidir_reverse"]["bytes"]
    finally:
        nodes.end(clients + [server for server in listening if server.returncode is None])
    if min(received, sent) <= 0:
        raise systems.Failed("iperf3 between all: must move something, got nothing")
    return {"server_s_per_gb": spent / ((received + sent) / 2 / 1e9), "received_gb": received / 1e9, "sent_gb": sent / 1e9}
