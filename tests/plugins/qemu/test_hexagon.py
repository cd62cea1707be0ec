"""What Hexagon's programs are given: comparisons, division and roots, against numpy bit for bit."""

import shutil

import numpy as np
import pytest

from core.testing.hook_bench import HookBench
from core_plugin_qemu import device as hooks
from core_plugin_qemu import hexagon
from core_plugin_qemu.architectures import ARCHITECTURES

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-hexagon") is None,
    reason="qemu-hexagon is not installed (apt-get install qemu-user)")

# Each item of the first array becomes the operation of those of the two others.
KERNEL = """define void @kernel(ptr %args, i64 %lo, i64 %hi, i64 %tid) {{
  %out = load ptr, ptr %args
  %ap = getelementptr i8, ptr %args, i32 8
  %a = load ptr, ptr %ap
  %bp = getelementptr i8, ptr %args, i32 16
  %b = load ptr, ptr %bp
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %loop ]
  %xp = getelementptr {kind}, ptr %a, i32 %k
  %x = load {kind}, ptr %xp
  %yp = getelementptr {kind}, ptr %b, i32 %k
  %y = load {kind}, ptr %yp
{operation}
  %to = getelementptr {kind}, ptr %out, i32 %k
  store {kind} %z, ptr %to
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
{declaration}
"""
KINDS = {np.float32: "float", np.float64: "double", np.int32: "i32", np.uint32: "i32",
         np.int64: "i64", np.uint64: "i64", np.int8: "i8", np.uint16: "i16"}


@pytest.fixture(scope="module")
def bench():
    device = hooks.EmulatedDevice(ARCHITECTURES["hexagon"])
    yield HookBench(hooks, device)
    device.close()


def run(bench, operation, a, b, declaration=""):
    text = KERNEL.format(kind=KINDS[a.dtype.type], operation=operation, count=len(a),
                         declaration=declaration)
    program = bench.program(hexagon.complete(text), "kernel")
    blocks = [bench.block(array) for array in (np.zeros_like(a), a, b)]
    program(blocks, [])
    return bench.read(blocks[0], len(a), a.dtype)


def floats(dtype, count=6000, seed=0):
    """Every kind of number: all bits random, simple fractions, denormals, special values."""
    rng = np.random.default_rng(seed)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    wild = rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)
    tame = rng.integers(1, 1000, count).astype(dtype) / dtype(8)
    tiny = (rng.integers(0, 1 << 20, count) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, np.finfo(dtype).max,
                        np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal], dtype)
    some = np.concatenate([wild, tame, tiny])
    return (np.concatenate([some, np.repeat(special, len(special))]),
            np.concatenate([np.roll(some, 2 * count + 7), np.tile(special, len(special))]))


def assert_same(found, right):
    """The same bits, any NaN being any NaN."""
    bits = np.uint32 if found.dtype == np.float32 else np.uint64
    both = np.isnan(found) & np.isnan(right)
    np.testing.assert_array_equal(np.where(both, 0, found.view(bits)),
                                  np.where(both, 0, right.view(bits)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients(bench, dtype):
    for seed in range(3):
        a, b = floats(dtype, seed=seed)
        found = run(bench, f"  %z = fdiv {KINDS[dtype]} %x, %y", a, b)
        with np.errstate(all="ignore"):
            assert_same(found, a / b)


def test_quotients_that_are_denormal_or_ties(bench):
    """Results around the smallest normal number, where digits fall off, and half-way cases."""
    rng = np.random.default_rng(5)
    a = np.ldexp(rng.integers(1 << 52, 1 << 53, 5000).astype(np.float64), -1074 - rng.integers(
        0, 54, 5000) + 2)
    b = np.ldexp(rng.choice([1.0, 1.5, 3.0, 2.0, 1.0 + 2.0**-52], 5000), rng.integers(-2, 3, 5000))
    assert_same(run(bench, "  %z = fdiv double %x, %y", a, b), a / b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_roots(bench, dtype):
    kind, name = KINDS[dtype], f"@llvm.sqrt.f{8 * np.dtype(dtype).itemsize}"
    a, b = floats(dtype)
    a = np.concatenate([a, np.arange(1, 2000, dtype=dtype) ** 2,
                        np.nextafter(np.arange(1, 2000, dtype=dtype) ** 2, dtype(0))])
    a = np.where(np.arange(len(a)) % 8 != 0, np.abs(a), a)
    found = run(bench, f"  %z = call {kind} {name}({kind} %x)", a, a.copy(),
                f"declare {kind} {name}({kind})")
    with np.errstate(all="ignore"):
        assert_same(found, np.sqrt(a))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_whole_quotients_and_remainders(bench, dtype):
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    some = rng.integers(limits.min, limits.max, 4000, dtype, endpoint=True)
    shifted = some >> rng.integers(0, limits.bits, 4000).astype(dtype)
    special = np.array([limits.min, limits.min + 1, 1, 2, 3, limits.max - 1, limits.max], dtype)
    a = np.concatenate([some, shifted, np.repeat(special, 7)])
    b = np.concatenate([np.roll(shifted, 5), some, np.tile(special, 7)])
    allowed = (b != 0) & ~((a == limits.min) & (b == dtype(-1) if limits.min else False))
    a, b = a[allowed], b[allowed]
    letter, kind = "s" if limits.min else "u", KINDS[dtype]
    wide = a.astype(object), b.astype(object)
    quotient = np.array([abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
                         for x, y in zip(*wide, strict=True)], dtype)
    np.testing.assert_array_equal(run(bench, f"  %z = {letter}div {kind} %x, %y", a, b), quotient)
    np.testing.assert_array_equal(
        run(bench, f"  %z = {letter}rem {kind} %x, %y", a, b), a - quotient * b)


@pytest.mark.parametrize("predicate", ["olt", "ogt", "ole", "oge"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_choice_by_a_comparison_keeps_nan(bench, dtype, predicate):
    a, b = floats(dtype, 500)
    kind = KINDS[dtype]
    compare = {"lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal}
    chosen = compare[predicate[1:]](a, b)
    for yes, no in (("x", "y"), ("y", "x")):
        operation = (f"  %c = fcmp {predicate} {kind} %x, %y\n"
                     f"  %z = select i1 %c, {kind} %{yes}, {kind} %{no}")
        right = np.where(chosen, *((a, b) if yes == "x" else (b, a)))
        assert_same(run(bench, operation, a, b), right)


def test_only_what_is_needed_is_added():
    text = "  %z = fadd double %x, %y\n"
    assert hexagon.complete(text) == text
    assert "@sqrt" not in hexagon.complete("  %z = fdiv double %x, %y\n")
    both = hexagon.complete("  %z = fdiv double %x, %y\n  %w = sdiv i64 %a, %b\n")
    assert both.count("declare i64 @llvm.ctlz.i64") == 1
