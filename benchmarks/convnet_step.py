"""Training steps of a small convolutional network, cold and warm, beside peers.

    python benchmarks/convnet_step.py
    python benchmarks/convnet_step.py tinygrad:PYTHON torch:PYTHON

conv 1-32 5x5, relu, conv 32-32 5x5, relu, batchnorm, maxpool, conv 32-64 3x3, relu, conv 64-64
3x3, relu, batchnorm, maxpool, linear; batch 64 of 28x28; Adam. Each engine runs in a process of
its own with an empty cache. Printed: seconds of the first two steps, split into Python and the
backend's compiler where the engine tells; distinct kernels; median of the later steps; ratios to
core. Budgets (issue A): first two steps under 5 s, at most 45 kernels, later ones under 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module

import numpy as np

BATCH, LATER_STEPS = 64, 12


class Core:
    """The network on core."""

    def __init__(self):
        frontend, self.nn = import_module("core.frontend"), import_module("core.nn")
        self.statistics = import_module("core.compiler.compile").STATISTICS
        self.Tensor, self.jit = frontend.Tensor, frontend.jit

    def optimizer_of(self, model):
        return self.nn.optim.Adam(self.nn.state.get_parameters(model))

    def data(self, images, labels):
        return self.Tensor(images, requires_grad=False), self.Tensor(labels)

    def step(self, model, optimizer):
        def train(images, labels):
            with self.Tensor.train():
                loss = model(images).cross_entropy(labels)
            loss.backward()
            loss.realize(*optimizer.schedule_step())
            optimizer.zero_grad()
            return loss

        return self.jit(train)

    def report(self):
        found = self.statistics
        return {"generate": found.generate_seconds,
                "backend": found.backend_seconds, "kernels": found.kernels}


class Tinygrad(Core):
    """The network on tinygrad."""

    def __init__(self):
        tinygrad, self.nn = import_module("tinygrad"), import_module("tinygrad.nn")
        self.Tensor, self.jit = tinygrad.Tensor, tinygrad.TinyJit
        self.training = tinygrad.Context(TRAINING=1)

    def data(self, images, labels):
        return self.Tensor(images).realize(), self.Tensor(labels).realize()

    def step(self, model, optimizer):
        def train(images, labels):
            with self.training:
                optimizer.zero_grad()
                loss = model(images).sparse_categorical_crossentropy(labels).backward()
                return loss.realize(*optimizer.schedule_step())

        return self.jit(train)

    def report(self):
        return {"generate": None, "backend": None, "kernels": None}


class Model:
    """Written against what core.nn and tinygrad.nn share."""

    def __init__(self, engine):
        nn = engine.nn
        self.a, self.b = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 32, 5)
        self.c, self.d = nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.norm1, self.norm2 = nn.BatchNorm(32), nn.BatchNorm(64)
        self.last = nn.Linear(576, 10)

    def __call__(self, x):
        x = self.norm1(self.b(self.a(x).relu()).relu()).max_pool2d()
        x = self.norm2(self.d(self.c(x).relu()).relu()).max_pool2d()
        return self.last(x.flatten(1))


class Torch:
    """The network on PyTorch."""

    def __init__(self):
        self.torch = import_module("torch")

    def data(self, images, labels):
        return self.torch.from_numpy(images), self.torch.from_numpy(labels)

    def model(self):
        nn = self.torch.nn
        return nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32),
            nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.BatchNorm2d(64), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(576, 10))

    def optimizer_of(self, model):
        return self.torch.optim.Adam(model.parameters())

    def step(self, model, optimizer):
        def train(images, labels):
            optimizer.zero_grad()
            loss = self.torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            return loss

        return train

    def report(self):
        return {"generate": None, "backend": None, "kernels": None}


ENGINES = {"core": Core, "tinygrad": Tinygrad, "torch": Torch}


def serve(name):
    """In a process of its own: print one JSON object of measurements."""
    draw = np.random.default_rng(0)
    images = [draw.random((BATCH, 1, 28, 28), dtype=np.float32) for _ in range(LATER_STEPS + 2)]
    labels = [draw.integers(0, 10, BATCH) for _ in images]
    started = time.perf_counter()
    engine = ENGINES[name]()
    imported = time.perf_counter() - started
    model = engine.model() if hasattr(engine, "model") else Model(engine)
    optimizer = engine.optimizer_of(model)
    step = engine.step(model, optimizer)
    seconds, losses, cold = [], [], {}
    started = time.perf_counter() - imported if name == "core" else time.perf_counter()
    for k, batch in enumerate(zip(images, labels, strict=True)):
        losses.append(float(step(*engine.data(*batch)).item()))
        now = time.perf_counter()
        seconds.append(now - started)
        started = now
        if k == 1:
            cold = engine.report()
    print(json.dumps({"import": imported, "cold": sum(seconds[:2]), "steps": seconds,
                      "later": statistics.median(seconds[4:]), "losses": losses[:6], **cold}))


def measure(name, python, threads):
    """Run an engine with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CORE_CACHE_DIR": folder, "XDG_CACHE_HOME": folder,
                       "CACHEDB": os.path.join(folder, "cache.db"), "OMP_NUM_THREADS": threads}
        command = [python, os.path.abspath(__file__), "--serve", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Measure core and the peers named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", help="tinygrad:PYTHON or torch:PYTHON")
    parser.add_argument("--serve", choices=ENGINES)
    parser.add_argument("--threads", default=str(os.cpu_count()))
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    wanted = [("core", sys.executable), *(p.split(":", 1) for p in arguments.peers)]
    found = {name: measure(name, python, arguments.threads) for name, python in wanted}
    own = found["core"]
    print(f"{'':10}{'first two steps':>17}{'generate':>10}{'backend':>9}{'kernels':>9}"
          f"{'later step':>12}{'core cold / it':>16}{'core later / it':>17}")
    for name, row in found.items():
        parts = [f"{row[k]:.2f} s" if row[k] is not None else "-" for k in ("generate", "backend")]
        print(f"{name:10}{row['cold']:>15.2f} s{parts[0]:>10}{parts[1]:>9}"
              f"{row['kernels'] or '-':>9}{row['later'] * 1e3:>9.1f} ms"
              f"{own['cold'] / row['cold']:>16.2f}{own['later'] / row['later']:>17.2f}")


if __name__ == "__main__":
    main()
