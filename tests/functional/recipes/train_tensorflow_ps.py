"""Stands in for ParameterServerStrategy: the chief coordinates; workers and parameter servers serve until they are stopped."""

import json
import os
import socket
import time

import meeting


def ask(address):
    host, port = address.rsplit(":", 1)
    for _ in range(300):
        try:
            with socket.create_connection((host, int(port))) as connection:
                return connection.recv(100).decode()
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise TimeoutError(address)


config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
# The strategy wants one chief, and a worker and a parameter server at least.
assert set(cluster) == {"chief", "ps", "worker"} and len(cluster["chief"]) == 1, cluster
if task["type"] == "chief":
    said = {ask(address) for kind in ("ps", "worker") for address in cluster[kind]}
    assert said == {f"{kind} {index}" for kind in ("ps", "worker") for index in range(len(cluster[kind]))}, said
    meeting.report(0, 1 + len(said), 0, len(said))
else:
    # tf.distribute.Server(...).join() never returns.
    host, port = cluster[task["type"]][task["index"]].rsplit(":", 1)
    with socket.create_server((host, int(port))) as server:
        while True:
            with server.accept()[0] as connection:
                connection.sendall(f"{task['type']} {task['index']}".encode())
