"""`core demo`: train a small convolutional network on handwritten digits, and say how it went."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from core.compiler.compile import STATISTICS
from core.frontend import Tensor, jit
from core.ir import dtypes
from core.nn import BatchNorm, Conv2d, Linear, datasets, optim, state
from core.runtime import GlobalCounters

EPOCHS: Final = 20
BATCH: Final = 64
LEARNING_RATE: Final = 2e-3
DROPOUT: Final = 0.4


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run measured.

    Attributes:
        device: Where it ran.
        seed: Of weights, batches and dropout.
        steps: Batches trained on.
        kernels: Programs launched by one step.
        compiled: Distinct programs of the whole run, compiled or found in the disk cache.
        compile_seconds: Time of code generation and of the device's compiler.
        step_milliseconds: Median over the epochs after the first; of the first if it is alone.
        total_seconds: Everything, from the first weight to the accuracy.
        test_images: Images that were never trained on.
        test_accuracy: Share of them that was recognised.
    """

    device: str
    seed: int
    steps: int
    kernels: int
    compiled: int
    compile_seconds: float
    step_milliseconds: float
    total_seconds: float
    test_images: int
    test_accuracy: float


class DigitNetwork:
    """Three convolutions with two batch normalizations, and a linear layer.

    (batch, 1, 8, 8) → (batch, 10): the scores of the digits.
    """

    def __init__(self) -> None:
        self.edges = Conv2d(1, 32, 3, padding=1)
        self.strokes = Conv2d(32, 32, 3, padding=1)
        self.strokes_norm = BatchNorm(32)
        self.shapes = Conv2d(32, 64, 3, padding=1)
        self.shapes_norm = BatchNorm(64)
        self.scores = Linear(64 * 4 * 4, 10)

    def __call__(self, images: Tensor) -> Tensor:
        """Scores of the ten digits."""
        x = self.edges(images).relu()
        x = self.strokes_norm(self.strokes(x).relu()).max_pool2d()
        x = self.shapes_norm(self.shapes(x).relu())
        return self.scores(x.flatten(1).dropout(DROPOUT))


class Training:
    """A network, its data and its optimizer.

    Args:
        seed: Of weights, order of the images, and dropout.
        epochs: How often each image is seen.
    """

    def __init__(self, seed: int, epochs: int) -> None:
        Tensor.manual_seed(seed)
        self._random = random.Random(seed)
        self.epochs = epochs
        self.data = datasets.digits(test_every=5)
        self.network = DigitNetwork()
        self.optimizer = optim.Adam(state.get_parameters(self.network), lr=LEARNING_RATE)
        self.count = self.data.train_images.shape[0]
        self.steps_per_epoch = self.count // BATCH
        self.steps = 0
        self.kernels = 0
        self.epoch_seconds: list[float] = []
        self._step = jit(self._train_on)

    def _train_on(self, chosen: Tensor) -> Tensor:
        """One step on the images that `chosen` numbers; returns the loss."""
        with Tensor.train():
            scores = self.network(self.data.train_images[chosen])
        loss = scores.cross_entropy(self.data.train_labels[chosen])
        loss.backward()
        loss.realize(*self.optimizer.schedule_step())
        self.optimizer.zero_grad()  # gradients are no result of the step
        return loss

    def run(self) -> Iterator[float]:
        """Train; gives the loss of the last step of each epoch."""
        for _ in range(self.epochs):
            started = time.perf_counter()
            order = list(range(self.count))
            self._random.shuffle(order)
            for k in range(self.steps_per_epoch):
                share = self.steps / (self.epochs * self.steps_per_epoch)
                self.optimizer.lr = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * share))
                batch = order[k * BATCH:(k + 1) * BATCH]
                launched = GlobalCounters.kernel_count
                loss = self._step(Tensor(batch, dtype=dtypes.int32))
                self.kernels = GlobalCounters.kernel_count - launched
                self.steps += 1
            yield float(loss.item())
            self.epoch_seconds.append(time.perf_counter() - started)

    def accuracy(self) -> float:
        """Share of the test images that the network recognises."""
        guesses = self.network(self.data.test_images).argmax(1)
        return float((guesses == self.data.test_labels).float().mean().item())


def train(seed: int, epochs: int = EPOCHS, progress: Progress | None = None) -> Report:
    """Train and test.

    Args:
        seed: Equal seeds give equal results on one machine.
        epochs: How often each image is seen.
        progress: Shows how far it is.
    """
    started, compiled, compiling = time.perf_counter(), STATISTICS.kernels, _compile_seconds()
    training = Training(seed, epochs)
    bar = None if progress is None else progress.add_task("training", total=epochs, loss=math.nan)
    for loss in training.run():
        if progress is not None and bar is not None:
            progress.update(bar, advance=1, loss=loss)
    accuracy = training.accuracy()
    seconds = training.epoch_seconds[1:] or training.epoch_seconds
    return Report(
        device=str(training.data.test_images.device),
        seed=seed,
        steps=training.steps,
        kernels=training.kernels,
        compiled=STATISTICS.kernels - compiled,
        compile_seconds=_compile_seconds() - compiling,
        step_milliseconds=median(seconds) / training.steps_per_epoch * 1e3,
        total_seconds=time.perf_counter() - started,
        test_images=training.data.test_images.shape[0],
        test_accuracy=accuracy,
    )


def run_demo(seed: int = 0, as_json: bool = False, epochs: int = EPOCHS) -> Report:
    """Train with a progress bar on standard error, then print the report; accuracy comes last.

    Args:
        seed: As of `train`.
        as_json: Print one JSON object instead of lines.
        epochs: As of `train`.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn(), TextColumn("loss {task.fields[loss]:.4f}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        report = train(seed, epochs, progress)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return report
    click.echo(f"device {report.device}")
    click.echo(f"kernels {report.kernels} per step, {report.compiled} distinct in all")
    click.echo(f"compile time {report.compile_seconds:.2f} s of {report.total_seconds:.1f} s")
    click.echo(f"time per step {report.step_milliseconds:.1f} ms, {report.steps} steps")
    click.echo(f"test accuracy {report.test_accuracy:.4f}")
    return report


def _compile_seconds() -> float:
    return STATISTICS.generate_seconds + STATISTICS.backend_seconds
