"""Learning rates that change from step to step.

    schedule = nn.schedules.Schedule(optimizer, nn.schedules.cosine(3e-4, 1000, warmup=100))
    for batch in batches:
        ...
        optimizer.step()
        schedule.step()

A course is a function from the number of a step, 0 at first, to a learning rate: write your own.
The rate is an argument of the compiled programs, so changing it compiles nothing; set it outside
of a jitted function.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from core.nn.optim import Optimizer

Course = Callable[[int], float]


class Schedule:
    """Sets the learning rate of an optimizer, from a course.

    Args:
        optimizer: Its rate becomes that of step 0 at once.
        course: The rate of each step.

    Attributes:
        step_number: Steps taken.
        lr: The rate that was set last.
    """

    def __init__(self, optimizer: Optimizer, course: Course) -> None:
        self.optimizer, self.course = optimizer, course
        self.go_to(0)

    def step(self) -> None:
        """Set the rate of the next step; call it after the optimizer's `step`."""
        self.go_to(self.step_number + 1)

    def go_to(self, step_number: int) -> None:
        """Set the rate of a certain step, such as that of a checkpoint."""
        self.step_number, self.lr = step_number, float(self.course(step_number))
        self.optimizer.lr = self.lr


def constant(lr: float, warmup: int = 0) -> Course:
    """The same rate, reached in equal parts after `warmup` steps."""
    return _warmed(lr, warmup, lambda _: 1.0)


def exponential(lr: float, factor: float, warmup: int = 0) -> Course:
    """The rate times `factor` at every step."""
    return _warmed(lr, warmup, lambda step: factor ** step)


def stepwise(lr: float, milestones: Sequence[int], factor: float = 0.1) -> Course:
    """The rate times `factor` at each milestone, numbers of steps in order.

    Raises:
        ValueError: They are not in order.
    """
    places = list(milestones)
    if places != sorted(places):
        raise ValueError(f"milestones {places} are not in order")
    return lambda step: lr * factor ** bisect_right(places, step)


def linear(lr: float, steps: int, end: float = 0.0, warmup: int = 0) -> Course:
    """From the rate to `end` in equal parts, `steps` steps in all, the warm-up among them."""
    return polynomial(lr, steps, end, 1.0, warmup)


def polynomial(
    lr: float, steps: int, end: float = 0.0, power: float = 1.0, warmup: int = 0
) -> Course:
    """From the rate to `end` as (1 - t) ** power, t from 0 to 1.

    Raises:
        ValueError: Nothing is left of `steps` after the warm-up.
    """
    length = _length(steps, warmup)
    return _warmed(lr, warmup, lambda step: _between(
        end / lr if lr else 0.0, (1 - min(step / length, 1)) ** power))


def cosine(lr: float, steps: int, end: float = 0.0, warmup: int = 0) -> Course:
    """From the rate to `end` as half a cosine (Loshchilov and Hutter, 2017), after a warm-up.

    Raises:
        ValueError: Nothing is left of `steps` after the warm-up.
    """
    length = _length(steps, warmup)
    return _warmed(lr, warmup, lambda step: _between(
        end / lr if lr else 0.0, (1 + math.cos(math.pi * min(step / length, 1))) / 2))


def cosine_restarts(lr: float, period: int, growth: int = 1, end: float = 0.0) -> Course:
    """Half cosines one after the other, each `growth` times as long as the one before.

    Raises:
        ValueError: `period` or `growth` is below 1.
    """
    if period < 1 or growth < 1:
        raise ValueError(f"period {period} and growth {growth} have to be at least 1")

    def course(step: int) -> float:
        length = period
        while step >= length:
            step, length = step - length, length * growth
        return end + (lr - end) * (1 + math.cos(math.pi * step / length)) / 2

    return course


def one_cycle(
    lr: float, steps: int, rise: float = 0.3, start_factor: float = 25.0, end_factor: float = 1e4
) -> Course:
    """Up to the rate and down again along half cosines (Smith and Topin, 2018).

    Args:
        lr: The largest rate.
        steps: All steps; the last of them has the smallest rate.
        rise: Share of the steps on the way up.
        start_factor: The first rate is the largest over this.
        end_factor: The last rate is the first over this.

    Raises:
        ValueError: Fewer than 2 steps, or a share that is not between 0 and 1.
    """
    if steps < 2 or not 0 < rise < 1:
        raise ValueError(f"one_cycle needs at least 2 steps and a share between 0 and 1, not "
                         f"{steps} and {rise}")
    start = lr / start_factor
    peak = rise * steps - 1 if rise * steps > 1 else 1.0

    def course(step: int) -> float:
        low, high, t = start, lr, min(step / peak, 1.0)
        if step > peak:
            low, high, t = lr, start / end_factor, min((step - peak) / (steps - 1 - peak), 1.0)
        return high + (low - high) * (1 + math.cos(math.pi * t)) / 2

    return course


def _length(steps: int, warmup: int) -> int:
    if steps <= warmup:
        raise ValueError(f"{steps} steps leave nothing after a warm-up of {warmup}")
    return steps - warmup


def _between(low: float, t: float) -> float:
    """From 1 at t = 1 to `low` at t = 0."""
    return low + (1 - low) * t


def _warmed(lr: float, warmup: int, factor: Callable[[int], float]) -> Course:
    """A factor of the rate, after steps that lead to it in equal parts."""
    return lambda step: lr * ((step + 1) / (warmup + 1) if step < warmup else factor(step - warmup))
