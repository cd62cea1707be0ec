"""Compile time and speed of code for the CPU: an addition, and a matmul written as a program.

    PYTHONPATH=.:plugins/cpu python benchmarks/cpu_codegen.py [size]

The matmul stages blocks of B in core-private scratch, keeps a tile of rows x vectors of C in
registers over all of K, and gives blocks to threads; sizes must be multiples of 64.
"""

import sys
import time

import numpy as np

import core_plugin_cpu
from core.codegen.linearize import linearize
from core.ir import AddressSpace, AxisType, BufferSlot, Op, UOp, dtypes
from core_plugin_cpu import device as hooks

BLOCK = 64  # columns of B that a thread stages


def number(value):
    return UOp.const(value, dtypes.int64)


def private(slot, size, space):
    return UOp(Op.BUFFER, (UOp.dims((size,)),), BufferSlot(slot, dtypes.float32, None, space))


def addition(count, lanes):
    c, a, b = (UOp.param(k, dtypes.float32, (count,)) for k in range(3))
    r = UOp.range(number(count // lanes), 0, AxisType.THREAD)
    x, y = (p.shrink((r * lanes,), (lanes,)).load() for p in (a, b))
    return UOp.sink(c.shrink((r * lanes,), (lanes,)).store(x + y).end(r))


def matmul(n, rows, vectors, lanes):
    c, a, b = (UOp.param(k, dtypes.float32, (n * n,)) for k in range(3))
    width = vectors * lanes
    block = UOp.range(number(n // BLOCK), 0, AxisType.THREAD)
    k0, tile, column, k = (UOp.range(number(bound), i + 1) for i, bound in enumerate(
        (n, -(-n // rows), BLOCK // width, n)))
    staged = private(0, n * BLOCK, AddressSpace.LOCAL)
    copies = [
        staged.after(block).shrink((number(j * n * width) + k0 * width + v * lanes,), (lanes,))
        .store(b.shrink((k0 * n + block * BLOCK + j * width + v * lanes,), (lanes,)).load())
        for j in range(BLOCK // width) for v in range(vectors)]
    fill = UOp.group(*copies).end(k0)
    # The last tile overlaps the one before it: it is stored, not added.
    first = (tile * rows < n - rows).where(tile * rows, number(n - rows))
    sums = private(1, rows * width, AddressSpace.REG)

    def part(after, i, v):
        return sums.after(*after).shrink((number(i * width + v * lanes),), (lanes,))

    places = [(i, v) for i in range(rows) for v in range(vectors)]
    zero = UOp.const(0.0, dtypes.float32)
    start = UOp.group(*(part((tile, column), i, v).store(zero) for i, v in places))
    panel = staged.after(fill)
    right = [panel.shrink((column * (n * width) + k * width + v * lanes,), (lanes,)).load()
             for v in range(vectors)]
    left = [a.index((first + i) * n + k).load() for i in range(rows)]
    steps = [part((start, k), i, v).store(
        left[i].alu(Op.MULACC, right[v], part((start, k), i, v).load())) for i, v in places]
    done = UOp.group(*steps).end(k)
    stores = [
        c.shrink(((first + i) * n + block * BLOCK + column * width + v * lanes,), (lanes,))
        .store(part((done,), i, v).load()) for i, v in places]
    return UOp.sink(UOp.group(*stores).end(column).end(tile).end(block))


def best(function, repeats=7):
    function()
    times = []
    for _ in range(repeats):
        time.sleep(0.06)  # numpy's threads spin after use and would take a core away
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2], min(times)


def main(size):
    device = hooks.core_open_device(spec=core_plugin_cpu.core_devices()[0], variant=0)
    (renderer,) = hooks.core_renderers(device=device)
    loader = hooks.core_loader(device=device, binary_format="object")
    lanes = device.target.lanes(4)
    tiles = [(6, 4), (8, 2)] if device.target.vector_registers == 32 else [(6, 2), (4, 2), (3, 4)]
    kernels = {"add": addition(1 << 22, lanes)}
    kernels |= {f"matmul {r}x{v}": matmul(size, r, v, lanes) for r, v in tiles}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    blocks = [hooks.HostBlock(x.ctypes.data, x.nbytes, x) for x in (c, a, b)]
    print(f"{device.machine.cpu}, {lanes} lanes, {device.target.cores} threads")
    for name, sink in kernels.items():
        linear = linearize(sink)
        source = renderer.render("kernel", linear)
        render, _ = best(lambda linear=linear: renderer.render("kernel", linear))
        compiled, _ = best(lambda source=source: renderer.compiler.compile([source]))
        (code,) = renderer.compiler.compile([source])
        load, _ = best(lambda code=code: loader.load("kernel", code))
        line = (f"{name:12s} render {render * 1e3:5.2f} ms  compile {compiled * 1e3:5.2f} ms  "
                f"load {load * 1e3:5.2f} ms  {len(code)} bytes")
        if name != "add":
            program = loader.load("kernel", code)
            c[:] = 0
            median, least = best(lambda p=program: p(blocks, [], (size // BLOCK, 1, 1)))
            error = np.abs(c - a @ b).max()
            line += (f"  {2 * size**3 / median / 1e9:5.0f} GF/s (best "
                     f"{2 * size**3 / least / 1e9:.0f}), error {error:.1e}")
        print(line)
    median, least = best(lambda: np.matmul(a, b, out=c))
    print(f"numpy {2 * size**3 / median / 1e9:.0f} GF/s (best {2 * size**3 / least / 1e9:.0f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
