"""Print the polynomials of `core/codegen/decompose/coefficients.py`.

Before: a function, an interval, a weight. After: near-minimax coefficients that are exactly
representable in the dtype. The method is Remez' exchange on a fine grid in mpmath with 60 digits.
For float32 the coefficients are rounded one at a time, the most significant first, and the others
refitted (Lawson's reweighted least squares, which needs no Haar condition).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath
import numpy as np
from mpmath import mpf

mpmath.mp.dps = 60
GRID = 1200
Function = Callable[[mpf], mpf]


def exchange(xs: Sequence[mpf], values: Sequence[mpf], weights: Sequence[mpf],
             powers: Sequence[int]) -> tuple[list[mpf], mpf]:
    """Coefficients of `powers` that minimise the largest weighted error on the grid."""
    unknowns = len(powers) + 1
    points = [round(k * (len(xs) - 1) / (unknowns - 1)) for k in range(unknowns)]
    solution: list[mpf] = []
    largest = mpf(0)
    for _ in range(12):
        matrix = mpmath.matrix(unknowns, unknowns)
        right = mpmath.matrix(unknowns, 1)
        for row, at in enumerate(points):
            for column, power in enumerate(powers):
                matrix[row, column] = xs[at] ** power * weights[at]
            matrix[row, unknowns - 1] = (-1) ** row
            right[row] = values[at] * weights[at]
        solved = mpmath.lu_solve(matrix, right)
        solution = [solved[k] for k in range(unknowns - 1)]
        errors = []
        for x, value, weight in zip(xs, values, weights, strict=True):
            total = sum((c * x**p for c, p in zip(solution, powers, strict=True)), mpf(0))
            errors.append((total - value) * weight)
        largest = max(map(abs, errors))
        extrema = _alternating(errors)
        if len(extrema) < unknowns:
            break
        while len(extrema) > unknowns:
            drop_first = abs(errors[extrema[0]]) < abs(errors[extrema[-1]])
            extrema = extrema[1:] if drop_first else extrema[:-1]
        if extrema == points:
            break
        points = extrema
    return solution, largest


def _alternating(errors: Sequence[mpf]) -> list[int]:
    """Position of the largest error in each run of one sign."""
    extrema: list[int] = []
    for at, error in enumerate(errors):
        if extrema and (errors[extrema[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[extrema[-1]]):
                extrema[-1] = at
        else:
            extrema.append(at)
    return extrema


def rounded(value: mpf, bits: int) -> mpf:
    """Nearest number with that many significant bits."""
    with mpmath.workprec(bits):
        return +value


def reweighted(xs: Sequence[mpf], rest: Sequence[mpf], weights: Sequence[mpf],
               powers: Sequence[int]) -> float:
    """First coefficient of a Lawson fit in double precision: it needs no Haar condition."""
    x = np.array(xs, float)
    basis = np.stack([x**p for p in powers], axis=1)
    target, weight = np.array(rest, float), np.array(weights, float)
    importance = np.ones(len(x))
    best, found = np.inf, 0.0
    for _ in range(200):
        scale = np.sqrt(importance) * weight
        solution = np.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)[0]
        errors = np.abs((basis @ solution - target) * weight)
        if errors.max() < best:
            best, found = errors.max(), float(solution[0])
        importance = importance * (errors + 1e-300)
        importance /= importance.sum()
    return found


def fit(name: str, function: Function, weight: Function, low: float, high: float,
        terms: int, bits: int) -> None:
    """Fit sum c_i x^i, i < terms, and print it with log2 of its weighted error."""
    middle, half = (mpf(low) + high) / 2, (mpf(high) - low) / 2
    xs = [middle - half * mpmath.cos(mpmath.pi * (k + 0.5) / GRID) for k in range(GRID)]
    values, weights = [function(x) for x in xs], [weight(x) for x in xs]
    fixed: list[mpf] = []
    rest = list(values)
    solution, _ = exchange(xs, values, weights, range(terms))
    for power in range(terms):
        if bits == 24:
            solution[power] = mpf(reweighted(xs, rest, weights, range(power, terms)))
        fixed.append(rounded(solution[power], bits))
        rest = [v - fixed[-1] * x**power for v, x in zip(rest, xs, strict=True)]
    largest = max(abs(v * w) for v, w in zip(rest, weights, strict=True))
    print(f"{name} error 2^{float(mpmath.log(largest, 2)):.1f}")
    print("    " + ", ".join(float(c).hex() for c in fixed))


def split(name: str, value: mpf, bits: int, leading: int) -> None:
    """Print a constant as a sum: `leading` bits that multiply exactly, and the rest."""
    high = rounded(value, leading)
    low = rounded(value - high, bits)
    print(f"{name} {float(high).hex()} {float(low).hex()}")


def main() -> None:
    """Print every table."""
    log, log1p, exp, sqrt = mpmath.log, mpmath.log1p, mpmath.exp, mpmath.sqrt
    ln2 = log(2)
    root = sqrt(mpf(2))
    small = (1 - 1 / root) / (1 + 1 / root)
    quarter = float(mpmath.pi / 4) * 1.0001
    for bits, exp_terms, circle_terms, tail_terms in ((24, 6, 3, 3), (53, 11, 6, 7)):
        print(f"-- {bits} bits")
        fit("EXP2: (2^r - 1) / r", lambda r: mpmath.expm1(r * ln2) / r, lambda r: r / 2**r,
            -0.5001, 0.5001, exp_terms, bits)
        fit("EXP: (e^r - 1 - r) / r^2", lambda r: (mpmath.expm1(r) - r) / r**2,
            lambda r: r**2 / exp(r), -0.3467, 0.3467, exp_terms - 1, bits)
        fit("SIN: (sin r - r) / r^3 in r^2",
            lambda z: (mpmath.sin(sqrt(z)) / sqrt(z) - 1) / z,
            lambda z: z * sqrt(z) / mpmath.sin(sqrt(z)), 0, quarter**2, circle_terms, bits)
        fit("COS: (cos r - 1 + r^2/2) / r^4 in r^2",
            lambda z: (mpmath.cos(sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mpmath.cos(sqrt(z)), 0, quarter**2, circle_terms, bits)
        fit("ATANH: (atanh s / s - 1 - s^2/3) / s^4 in s^2",
            lambda z: (mpmath.atanh(sqrt(z)) / sqrt(z) - 1 - z / 3) / z**2,
            lambda z: z**2 * sqrt(z) / mpmath.atanh(sqrt(z)), 0, float(small**2) * 1.0001,
            tail_terms, bits)
        leading = bits - (9 if bits == 24 else 12)
        split("ln 2", ln2, bits, leading)
        split("log2 e", 1 / ln2, bits, bits)
        split("2 log2 e", 2 / ln2, bits, bits)
        split("1/3", mpf(1) / 3, bits, bits)
        split("pi/2", mpmath.pi / 2, bits, bits)
    fit("LOG: (log(1+t) - t + t^2/2) / t^3", lambda t: (log1p(t) - t + t * t / 2) / t**3,
        lambda t: t**3 / log1p(t), float(1 / root - 1) * 1.0001, float(root - 1) * 1.0001, 9, 24)
    words = (int(mpmath.floor(2 / mpmath.pi * mpf(2) ** 190)), 190)
    print(f"2/pi, first {words[1]} bits: {words[0]:#x}")
    with mpmath.workdps(500):
        print(f"2/pi, first 1280 bits: {int(mpmath.floor(2 / mpmath.pi * mpf(2) ** 1280)):#x}")


if __name__ == "__main__":
    main()
