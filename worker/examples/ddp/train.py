#!/usr/bin/python3
"""Trains a network on handwritten digits with PyTorch's DistributedDataParallel, one process per rank, on the CPU.

In a job that `summand` runs, ranks and addresses are in the environment, where torch.distributed looks for them. What
Summand adds to such a program are the three lines marked "Summand".
"""

import argparse
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BIN = os.path.dirname(os.path.realpath(__file__))
SHARE = os.path.join(BIN, "..", "share", "summand")
HELD_OUT_EVERY = 5
WIDTH = 512


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["summand", "gloo"], default="summand",
                        help="what averages the gradients (default summand)")
    parser.add_argument("--epochs", type=int, default=3, help="times that every example is seen (default 3)")
    parser.add_argument("--batch", type=int, default=16, help="examples that each rank takes in a step (default 16)")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="length of a step (default 0.1)")
    parser.add_argument("--seed", type=int, default=1, help="of initial weights and shuffles (default 1)")
    parser.add_argument("--data", default=os.path.join(SHARE, "digits.txt"), metavar="FILE",
                        help="the images; default: digits.txt that came with the program")
    parser.add_argument("--output", default=os.environ.get("AIP_MODEL_DIR"), metavar="DIR",
                        help="where rank 0 writes loss.txt, a loss per step; default: $AIP_MODEL_DIR; none: nowhere")
    return parser.parse_args()


def notify(line):
    """To the runner, if there is one: specs/guide/reporting.md."""
    if "SUMMAND_NOTIFY_FD" in os.environ:
        os.write(int(os.environ["SUMMAND_NOTIFY_FD"]), line.encode() + b"\n")


def read_digits(path):
    """Images of 64 pixels from 0 to 1, and their labels; each line is 64 pixels in base 17, a space, the label."""
    with open(path, encoding="ascii") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    images = torch.tensor([[int(pixel, 17) / 16 for pixel in pixels] for pixels, _ in rows])
    return images, torch.tensor([int(label) for _, label in rows])


def make_model(seed):
    torch.manual_seed(seed)
    # Tanh and no momentum: ReLU's kinks blow the rounding of one step up to 1e-2 in the loss within 90 steps.
    widths = [64, WIDTH, WIDTH, WIDTH]
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
    # Buckets of 1 MB: three, of which the first is on its way while the gradients of the last are computed.
    return DistributedDataParallel(network, bucket_cap_mb=1)


def train_epoch(options, epoch, model, optimizer, images, labels):
    """The loss of each step on this rank. All ranks shuffle alike, and take their share of each batch."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed + epoch))
    stride = options.batch * dist.get_world_size()
    losses = []
    for begin in range(dist.get_rank() * options.batch, len(images) // stride * stride, stride):
        batch = order[begin:begin + options.batch]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def train(options, model, state, images, labels):
    """The losses of all steps, averaged over the ranks."""
    optimizer = torch.optim.SGD(model.parameters(), options.learning_rate)
    curve = []
    for epoch in range(options.epochs):
        losses = train_epoch(options, epoch, model, optimizer, images, labels)
        if state:
            state.communicator.all_reduce(losses)
        else:
            dist.all_reduce(losses)
        losses /= dist.get_world_size()
        curve += losses.tolist()
        if dist.get_rank() == 0:
            text = f"epoch {epoch + 1} of {options.epochs}, loss {losses.mean():.4f}"
            print(text, flush=True)
            notify("status " + text)
    return curve


def report(options, model, curve, state, images, labels):
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    notify(f"result steps {len(curve)}")
    notify(f"result weights {hashlib.sha256(weights).hexdigest()[:16]}")
    if state:
        stats = state.context.stats()
        notify(f"result allreduce_bytes {stats['bytes_reduced']}")
        notify(f"result allreduce_seconds {stats['busy_seconds']:.3f}")
    if dist.get_rank() == 0:
        with torch.no_grad():
            right = (model.module(images).argmax(1) == labels).float().mean().item()
        print(f"accuracy {right:.4f}")
        notify(f"result accuracy {right:.4f}")
        if options.output:
            os.makedirs(options.output, exist_ok=True)
            with open(os.path.join(options.output, "loss.txt"), "w", encoding="ascii") as file:
                file.writelines(f"{loss!r}\n" for loss in curve)


def main():
    options = read_options()
    torch.set_num_threads(1)  # ranks that share a machine share its processors
    images, labels = read_digits(options.data)
    held_out = torch.arange(len(images)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    dist.init_process_group("gloo")
    model = make_model(options.seed)
    state = None
    if options.backend == "summand":
        sys.path.insert(0, os.path.join(SHARE, "python"))
        import summand_ddp  # Summand
        state = summand_ddp.register(model)  # Summand
    try:
        curve = train(options, model, state, images[~held_out], labels[~held_out])
        report(options, model, curve, state, images[held_out], labels[held_out])
    finally:
        if state:
            state.close()  # Summand


main()
