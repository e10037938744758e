"""Fits a line by gradient descent, and reports the loss as cloudml-hypertune does; without that package, too.

    from hypertune import HyperTune
    HyperTune().report_hyperparameter_tuning_metric("loss", loss, step)
"""

import argparse
import json
import os
import time

reports = []


def report(metric, value, step):
    path = os.environ.get("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics")
    trial = os.environ.get("CLOUD_ML_TRIAL_ID", "0")
    reports.append(json.dumps({metric: str(value), "global_step": str(step), "timestamp": time.time(), "trial": trial}))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(reports[-100:]) + "\n")


parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--optimizer", default="plain")
parser.add_argument("--momentum", type=float, default=0)
options = parser.parse_args()

points = [(x / 10, 3 * x / 10 - 1 + (0.1 if x % 2 else -0.1)) for x in range(-10, 11)]
slope = offset = slope_speed = offset_speed = 0.0
for step in range(options.steps):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope_speed = options.momentum * slope_speed + sum(2 * e * x for e, x in errors) / len(points)
    offset_speed = options.momentum * offset_speed + sum(2 * e for e, _ in errors) / len(points)
    slope -= options.learning_rate * slope_speed
    offset -= options.learning_rate * offset_speed
    if step % 10 == 9:
        report("loss", sum((slope * x + offset - y) ** 2 for x, y in points) / len(points), step + 1)
print(f"y = {slope:.3f} x + {offset:.3f}")
