"""Polynomials and constants of the decompositions, one table per float format.

Every number is printed by `benchmarks/fit_coefficients.py` (Remez and Lawson fits of ours, with
the interval and the weight written there). A pair is a constant in two parts, high and low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.ir import DType, dtypes

Pair = tuple[float, float]


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.replace(",", " ").split())


@dataclass(frozen=True)
class Coefficients:
    """What the functions of one dtype are made of.

    Attributes:
        exp2: (2^r - 1) / r for |r| <= 1/2; error of 2^r 2^-28.3 and 2^-54.4.
        exp: (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; error of e^r 2^-28.3 and 2^-56.5.
        sin: (sin r - r) / r^3 in r^2 for |r| <= pi/4; error of sin 2^-27.9 and 2^-56.4.
        cos: (cos r - 1 + r^2/2) / r^4 in r^2 for |r| <= pi/4; error of cos 2^-33 and 2^-59.6.
        atanh: (atanh s / s - 1 - s^2/3) / s^4 in s^2 for |s| <= 0.172; error of atanh 2^-36.8
            and 2^-66.1.
        ln2: ln 2; the high part times an exponent is exact.
        log2e: 1 / ln 2.
        twice_log2e: 2 / ln 2.
        third: 1 / 3.
        half_pi: pi / 2.
    """

    exp2: tuple[float, ...]
    exp: tuple[float, ...]
    sin: tuple[float, ...]
    cos: tuple[float, ...]
    atanh: tuple[float, ...]
    ln2: Pair
    log2e: Pair
    twice_log2e: Pair
    third: Pair
    half_pi: Pair


_FLOAT32: Final = Coefficients(
    exp2=_numbers("""0x1.62e43p-1 0x1.ebfbdcp-3 0x1.c6af7cp-5 0x1.3b2dep-7 0x1.5f0838p-10
        0x1.416b8p-13"""),
    exp=_numbers("""0x1.fffffcp-2 0x1.555492p-3 0x1.5558aep-5 0x1.123988p-7 0x1.6a4f88p-10"""),
    sin=_numbers("""-0x1.555546p-3 0x1.110778p-7 -0x1.9954p-13"""),
    cos=_numbers("""0x1.55554ap-5 -0x1.6c0c28p-10 0x1.99e80cp-16"""),
    atanh=_numbers("""0x1.999ap-3 0x1.24527cp-3 0x1.dfa23p-4"""),
    ln2=(float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")),
    log2e=(float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0cp-26")),
    twice_log2e=(float.fromhex("0x1.715476p+1"), float.fromhex("0x1.4ae0cp-25")),
    third=(float.fromhex("0x1.555556p-2"), float.fromhex("-0x1.555556p-27")),
    half_pi=(float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25")),
)

_FLOAT64: Final = Coefficients(
    exp2=_numbers("""0x1.62e42fefa39f3p-1 0x1.ebfbdff82c598p-3 0x1.c6b08d7048f2ap-5
        0x1.3b2ab6fba1e08p-7 0x1.5d87fe7bbcceap-10 0x1.4309130966511p-13 0x1.ffcbee383a124p-17
        0x1.62bfd48ecb189p-20 0x1.b5416a59a78dep-24 0x1.e6061998e908p-28 0x1.c063d2473c19fp-32"""),
    exp=_numbers("""0x1.000000000000ap-1 0x1.55555555554fap-3 0x1.5555555550853p-5
        0x1.1111111127cbp-7 0x1.6c16c18433bdp-10 0x1.a01a012a25d63p-13 0x1.a01999f09b601p-16
        0x1.71df25960ef85p-19 0x1.28ad8dbee85d7p-22 0x1.ad7f49cd89827p-26"""),
    sin=_numbers("""-0x1.5555555555548p-3 0x1.111111110f7cap-7 -0x1.a01a019bfd187p-13
        0x1.71de356712a92p-19 -0x1.ae5e59f5cd7p-26 0x1.5d8fa32e7d29ep-33"""),
    cos=_numbers("""0x1.555555555554bp-5 -0x1.6c16c16c14f8ap-10 0x1.a01a019c83911p-16
        -0x1.27e4f7ea37b73p-22 0x1.1ee9d752b1b69p-29 -0x1.8fa4660328394p-37"""),
    atanh=_numbers("""0x1.9999999999b2fp-3 0x1.2492492457f51p-3 0x1.c71c722d3c95dp-4
        0x1.745ce9f0ffde9p-4 0x1.3b1ee9b35cc51p-4 0x1.0f801da454ad6p-4 0x1.0e40df6436303p-4"""),
    ln2=(float.fromhex("0x1.62e42fefa4p-1"), float.fromhex("-0x1.8432a1b0e2634p-43")),
    log2e=(float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")),
    twice_log2e=(float.fromhex("0x1.71547652b82fep+1"), float.fromhex("0x1.777d0ffda0d24p-55")),
    third=(float.fromhex("0x1.5555555555555p-2"), float.fromhex("0x1.5555555555555p-56")),
    half_pi=(float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")),
)

COEFFICIENTS: Final[dict[DType, Coefficients]] = {
    dtypes.float32: _FLOAT32, dtypes.float64: _FLOAT64,
}

# (log(1 + t) - t + t^2/2) / t^3 for t from sqrt(1/2) - 1 to sqrt(2) - 1; error of log 2^-30.3.
LOG_FLOAT32: Final = _numbers("""0x1.555548p-2 -0x1.000006p-2 0x1.99a476p-3 -0x1.555c42p-3
    0x1.233b9cp-3 -0x1.fc2926p-4 0x1.e6c114p-4 -0x1.de0004p-4 0x1.146e0cp-4""")

# The first 1280 bits of 2/pi after the point.
TWO_OVER_PI_BITS: Final = 1280
TWO_OVER_PI: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
