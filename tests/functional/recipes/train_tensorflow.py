"""Stands in for MultiWorkerMirroredStrategy: reads what TFConfigClusterResolver reads, and serves on its task's address."""

import json
import os
import socket
import time

import meeting


def receive(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part
        data += part
    return int.from_bytes(data, "big")


def connect(address):
    host, port = address.rsplit(":", 1)
    for _ in range(300):
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            time.sleep(0.1)  # it has not begun yet; TensorFlow waits too
    raise TimeoutError(address)


config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
# The strategy counts chief and workers, and waits for every task that is listed; it refuses tasks of another type, and a
# second chief (multi_worker_util.validate_cluster_spec, worker_count).
assert set(cluster) == {"chief", "worker"} and len(cluster["chief"]) == 1, cluster
assert task["type"] in ("chief", "worker") and isinstance(task["index"], int), task
tasks = [("chief", 0)] + [("worker", index) for index in range(len(cluster["worker"]))]
rank = tasks.index((task["type"], task["index"]))
host, port = cluster[task["type"]][task["index"]].rsplit(":", 1)
with socket.create_server((host, int(port))) as server:
    if rank == 0:
        others = [server.accept()[0] for _ in tasks[1:]]
        total = 1 + sum(receive(other, 4) for other in others)
        for other in others:
            other.sendall(total.to_bytes(4, "big"))
    else:
        with connect(cluster["chief"][0]) as chief:
            chief.sendall((rank + 1).to_bytes(4, "big"))
            total = receive(chief, 4)
meeting.report(rank, len(tasks), 0, total)
