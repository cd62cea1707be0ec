"""Print the polynomials of `special.py` and `inverse_functions.py` of `core/frontend/operations`.

The method: fit_coefficients.
"""

from __future__ import annotations

import mpmath
from fit_coefficients import fit
from mpmath import mpf, sqrt

MIDDLE = mpf(3.75)


def tail(t: mpf) -> mpf:
    """erfc x · exp(x²) · (1 + 2x) at t = (x - 3.75) / (x + 3.75)."""
    x = MIDDLE * (1 + t) / (1 - t)
    return mpmath.erfc(x) * mpmath.exp(x * x) * (1 + 2 * x)


def transformed(x: float) -> float:
    """t of an x."""
    return float((x - MIDDLE) / (x + MIDDLE))


def main() -> None:
    """Print both tables."""
    for bits, tanh_terms, erf_terms, tail_terms, largest in ((24, 5, 6, 10, 11),
                                                             (53, 12, 11, 22, 28)):
        print(f"-- {bits} bits")
        fit("TANH: (tanh x / x - 1) / x^2 in x^2",
            lambda z: (mpmath.tanh(sqrt(z)) / sqrt(z) - 1) / z,
            lambda z: z * sqrt(z) / mpmath.tanh(sqrt(z)), 1e-20, 0.625**2 * 1.0001, tanh_terms,
            bits)
        fit("ERF: erf x / x - 1 in x^2", lambda z: mpmath.erf(sqrt(z)) / sqrt(z) - 1,
            lambda z: sqrt(z) / mpmath.erf(sqrt(z)), 1e-20, 0.844**2, erf_terms, bits)
        fit("TAIL", tail, lambda t: 1 / tail(t), transformed(0.5), transformed(largest),
            tail_terms, bits)
    for bits, atan_terms, asin_terms in ((24, 5, 5), (53, 11, 12)):
        print(f"-- {bits} bits, inverse functions")
        fit("ATAN: (atan x / x - 1) / x^2 in x^2",
            lambda z: (mpmath.atan(sqrt(z)) / sqrt(z) - 1) / z,
            lambda z: z * sqrt(z) / mpmath.atan(sqrt(z)), 1e-20,
            float(mpmath.tan(mpmath.pi / 8) ** 2) * 1.0001, atan_terms, bits)
        fit("ASIN: (asin x / x - 1) / x^2 in x^2",
            lambda z: (mpmath.asin(sqrt(z)) / sqrt(z) - 1) / z,
            lambda z: z * sqrt(z) / mpmath.asin(sqrt(z)), 1e-20, 0.25 * 1.0001, asin_terms, bits)


if __name__ == "__main__":
    main()
