"""Devices with work groups: what tiles give to a matmul, and what a replayed kernel costs Python.

    CORE_AMD_ANY_OPENCL=1 python benchmarks/gpu.py [--check] [AMD CL WEBGPU]

Beside each other in one run, in rounds: the program that the heuristic chooses, the same with every
operand's tile copied into work-group memory, and one work item for each output. Ratios are of
medians. `--check` fails where tiles give less than 3 times as many operations a second, or a
replayed kernel costs more than its limit.
"""

import sys
import time
from dataclasses import replace
from statistics import median

import numpy as np

from core import Device, Tensor, jit
from core.codegen.actions import apply_actions, parse_actions
from core.compiler.pipeline import generate
from core.foundation.errors import CompileError, DeviceError
from core.ir import KernelInfo, Op, UOp, dtypes
from core.runtime.device import open_device

SIZE, ROUNDS, KERNELS = 512, 7, 30
WANTED_RATIO = 3.0
#: Microseconds of Python for a replayed kernel (issue 4).
LIMITS = {"AMD": 8.0, "CL": 8.0, "WEBGPU": 30.0}


def matmul(size):
    """out[i, j] = sum over k of left[i, k] * right[k, j]."""
    out, left, right = (UOp.param(k, dtypes.float32, (size * size,)) for k in range(3))
    i, j, k = (UOp.range(size, axis) for axis in range(3))
    product = left.index(i * size + k).load() * right.index(k * size + j).load()
    store = out.index(i * size + j).store(product.reduce(Op.ADD, k))
    return UOp.sink(store.end(i, j), info=KernelInfo("matmul"))


def plain(target):
    """One work item for each output."""
    text = "SPLIT(1, 64, LOCAL, EXACT) RETYPE(4, GLOBAL) RETYPE(0, GLOBAL)" if (
        target.global_limit) else "MERGE(0, 1) RETYPE(3, THREAD)"
    return apply_actions(matmul(SIZE), parse_actions(text))


def variants(target):
    """Kernels by name, each with the target for which it is made."""
    kernels = {"one item per output": (plain(target), target),
               "as chosen": (matmul(SIZE), target)}
    if target.has_local:
        kernels["tiles copied"] = matmul(SIZE), replace(target, local_is_fast=True)
    return kernels


def loaded(name, sink, target, opened):
    """(program, its launch sizes)."""
    made = generate(sink, target, opened.renderer.code_for_op)
    name = f"matmul_{name.replace(' ', '_')}"
    (binary,) = opened.renderer.compiler.compile([opened.renderer.render(name, made.src[1])])
    padded = [(*size, 1, 1, 1)[:3] for size in (made.arg.global_size, made.arg.local_size)]
    return opened.loaders[opened.renderer.binary_format].load(name, binary), padded


def matmuls(opened):
    """GF/s of each variant, medians over rounds."""
    allocator, rng = opened.allocator, np.random.default_rng(0)
    left, right = (rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(2))
    blocks = [allocator.allocate(left.nbytes) for _ in range(3)]
    for block, data in zip(blocks[1:], (left, right), strict=True):
        allocator.copy_in(block, 0, memoryview(data).cast("B"))
    programs, seconds = {}, {}
    for name, (sink, target) in variants(opened.target).items():
        try:
            programs[name] = loaded(name, sink, target, opened)
        except CompileError as error:
            print(f"  {name}: {str(error).splitlines()[0]}")
    for turn in range(ROUNDS + 1):
        for name, (program, sizes) in programs.items():
            opened.device.synchronize()
            started = time.perf_counter()
            program(blocks, [], *sizes, wait=True)
            opened.device.synchronize()
            if turn:  # the first launch makes machine code
                seconds.setdefault(name, []).append(time.perf_counter() - started)
            else:
                result = np.empty_like(left)
                allocator.copy_out(memoryview(result).cast("B"), blocks[0], 0)
                np.testing.assert_allclose(result, left @ right, rtol=1e-3, atol=1e-3)
    for block in blocks:
        allocator.free(block)
    return {name: 2 * SIZE ** 3 / median(times) / 1e9 for name, times in seconds.items()}


def replayed(device):
    """Microseconds of the host for each kernel of a list of small ones."""
    x = Tensor(np.ones(64, np.float32), device=device).realize()

    @jit
    def chain(x):
        for _ in range(KERNELS):
            x = (x * 1.01 + 1.0).contiguous()
        return x

    for _ in range(3):
        chain(x).numpy()
    times = []
    for _ in range(ROUNDS):
        Device[device].synchronize()
        started = time.perf_counter()
        for _ in range(20):
            chain(x)
        times.append((time.perf_counter() - started) / 20 / KERNELS * 1e6)
    Device[device].synchronize()
    return median(times)


def main():
    check = "--check" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--check"] or list(LIMITS)
    failed = []
    for name in names:
        try:
            opened = open_device(name)
        except DeviceError as error:
            print(f"{name}: {str(error).splitlines()[0]}")
            continue
        print(f"{name}: {opened.target.architecture}")
        rates = matmuls(opened)
        base = rates["one item per output"]
        for variant, rate in rates.items():
            print(f"  matmul {SIZE}, {variant:20} {rate:7.2f} GF/s  {rate / base:6.2f} x")
        cost = replayed(name)
        print(f"  replayed kernel {cost:6.2f} us of the host (limit {LIMITS[name]:.0f})")
        if rates.get("as chosen", 0) < WANTED_RATIO * base:
            failed.append(f"{name}: tiles give {rates.get('as chosen', 0) / base:.2f} x")
        if cost > LIMITS[name]:
            failed.append(f"{name}: {cost:.1f} us for a replayed kernel")
    if check and failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
