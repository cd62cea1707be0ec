"""The simulator runs what the compiler made, and refuses what no correct kernel does."""

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
pytest.importorskip("core_plugin_cuda", reason="core-plugin-cuda is not installed")

from core.plugin import DeviceError
from core_plugin_cuda.nvrtc import compile_text
from core_plugin_cuda.simulator import arithmetic
from core_plugin_cuda.simulator.machine import Function
from core_plugin_cuda.simulator.memory import GlobalMemory
from core_plugin_cuda.simulator.ptx import PtxError, read_ptx

HEAD = 'extern "C" __global__ void bad_kernel(float *a, int n) { __shared__ float t[64]; '


def run(source, array, *scalars, groups=1, items=64):
    """What a kernel leaves in an array."""
    text, _ = compile_text(source, "compute_80")
    function = Function(next(iter(read_ptx(text.decode()).values())))
    memory = GlobalMemory(1 << 20)
    address = memory.allocate(array.nbytes)
    memory.span(address, array.nbytes)[:] = array.view(np.uint8)
    function.launch(memory, (groups, 1, 1), (items, 1, 1), [address, *scalars])
    return memory.span(address, array.nbytes).view(array.dtype).copy()


DATA = np.random.default_rng(0).integers(-9, 9, 64).astype(np.float32)


def test_a_barrier_and_divergence():
    body = """int i = threadIdx.x; t[i] = a[i]; __syncthreads();
        for (int k = 32; k; k /= 2) { if (i < k) t[i] += t[i + k]; __syncthreads(); }
        if (i & 1) a[i] = t[0]; else { float s = 0; for (int k = 0; k < i; k++) s += k; a[i] = s; }
    }"""
    i = np.arange(64)
    np.testing.assert_array_equal(
        run(HEAD + body, DATA, 64), np.where(i % 2, DATA.sum(), i * (i - 1) / 2))


def test_a_shuffle():
    body = """float v = a[threadIdx.x];
        for (int k = 16; k; k /= 2) v += __shfl_xor_sync(~0u, v, k); a[threadIdx.x] = v; }"""
    np.testing.assert_array_equal(
        run(HEAD + body, DATA, 64), DATA.reshape(2, 32).sum(1).repeat(32))


@pytest.mark.parametrize("kind", ["char", "unsigned char"])
def test_dot_products_of_bytes(kind):
    source = f"""extern "C" __global__ void k(signed {kind} *a, int *out) {{ int s = 5;
        for (int k = 0; k < 8; k++) s += a[k] * a[k + 8]; *(int *)(a + 16) = s; }}"""
    source = source.replace("signed unsigned", "unsigned").replace(", int *out", "")
    data = np.frombuffer(bytes(range(3, 250, 13))[:16] + bytes(4), np.uint8)
    found = run(source, data.copy(), items=1)[16:].view(np.int32)[0]
    x = data[:16].view(np.int8 if kind == "char" else np.uint8).astype(np.int64)
    assert found == 5 + int(x[:8] @ x[8:])


def test_one_place_that_all_threads_store_to():
    source = 'extern "C" __global__ void k(int *a) { a[0] = threadIdx.x; }'
    assert run(source, np.zeros(1, np.int32))[0] == 63


def test_atomics_return_what_was_there():
    source = """extern "C" __global__ void k(int *a) {
        int old = atomicAdd(a, 3); a[1 + threadIdx.x] = old; }"""
    found = run(source, np.zeros(65, np.int32))
    assert found[0] == 192
    assert sorted(found[1:]) == list(range(0, 192, 3))


def test_a_matrix_product():
    source = """extern "C" __global__ void k(unsigned *a) { int l = threadIdx.x;
        float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},"
            "{%8,%9},{%0,%1,%2,%3};" : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a[l]),
            "r"(a[l + 32]), "r"(a[l + 64]), "r"(a[l + 96]), "r"(a[l + 128]), "r"(a[l + 160]));
        float *c = (float *)a + 192 + 4 * l; c[0] = c0; c[1] = c1; c[2] = c2; c[3] = c3; }"""
    draw = np.random.default_rng(1)
    left = draw.integers(-4, 4, (16, 16)).astype(np.float16)
    right = draw.integers(-4, 4, (16, 8)).astype(np.float16)
    memory = np.zeros(192 + 128, np.uint32)
    halves = memory[:192].view(np.float16).reshape(6, 32, 2)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for e in range(2):
            for k in range(4):
                halves[k, lane, e] = left[g + 8 * (k % 2), 2 * t + e + 8 * (k // 2)]
            for k in range(2):
                halves[4 + k, lane, e] = right[2 * t + e + 8 * k, g]
    found = run(source, memory, items=32)[192:].view(np.float32).reshape(32, 4)
    product = left.astype(np.float32) @ right.astype(np.float32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for k in range(4):
            assert found[lane, k] == product[g + 8 * (k // 2), 2 * t + k % 2]


@pytest.mark.parametrize(("body", "words"), [
    ("a[threadIdx.x + n] = 1; }", r"out of bounds store .*thread \(1,0,0\) of work group"),
    ("*(float *)((char *)a + n) = 1; }", "misaligned store of global memory"),
    ("t[n * threadIdx.x] = 1; __syncthreads(); a[0] = t[0]; }",
     "out of bounds store of shared memory"),
    ("if (threadIdx.x < 32) t[threadIdx.x] = 1; __syncthreads(); a[threadIdx.x] = t[threadIdx.x];}",
     "that nobody wrote"),
    ("t[threadIdx.x] = 1; a[threadIdx.x] = t[63 - threadIdx.x]; }",
     "race: load of shared memory that another thread wrote"),
    ("t[threadIdx.x / 2] = threadIdx.x; __syncthreads(); a[0] = t[0]; }",
     "race: two threads store"),
    ("if (threadIdx.x < n) __syncthreads(); a[0] = 1; }", "come to the same barrier"),
])
def test_what_no_correct_kernel_does_is_an_error_that_names_it(body, words):
    with pytest.raises(DeviceError, match=f"bad_kernel failed: .*{words}"):
        run(HEAD + body, DATA, 63)


def test_an_unknown_instruction_is_named():
    text = ".visible .entry k() { .reg .b32 %r<2>; nonsense.b32 %r1, 0; ret; }"
    with pytest.raises(PtxError, match=r"nonsense\.b32"):
        Function(read_ptx(text)["k"])
    with pytest.raises(PtxError, match="no PTX"):
        read_ptx("hello")


def test_fused_multiply_add_rounds_once():
    """Against whole numbers of Python, in which products and sums are exact."""
    draw = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        a, b = draw.normal(size=(2, 2000)).astype(np.float32)
        c = (-a * b * (1 + draw.normal(size=2000) * 1e-7)).astype(np.float32)
        found = arithmetic.fused_multiply_add_32(a, b, c)
        x, y, z = (v.astype(np.float64) for v in (a, b, c))
        wide = arithmetic.fused_multiply_add_64(x + 1e-12, y, z)
    for k in range(2000):
        exact = int(float(a[k]) * 2.0**60) * int(float(b[k]) * 2.0**60) + int(
            float(c[k]) * 2.0**60) * 2**60
        assert found[k] == np.float32(exact / 2**120)
        library = arithmetic._library_fma(x[k] + 1e-12, y[k], z[k])
        assert wide[k] == library


@pytest.mark.parametrize(("value", "kind", "want"), [
    (np.nan, "s32", 0), (3e9, "s32", 2**31 - 1), (-1.0, "u32", 0), (5e9, "u32", 2**32 - 1),
    (-2.9, "s32", -2), (np.nan, "s64", -2**63)])
def test_floats_become_integers_as_ptx_says(value, kind, want):
    with np.errstate(all="ignore"):
        assert arithmetic.convert(np.float32(value), kind, "f32", ("rzi",)) == want


@pytest.mark.parametrize(("a", "b", "c"), [
    (0.0, -0.0, -0.0), (2e-308, -2e-308, 0.0), (9e-246, -1e-260, 0.0), (1e300, 1e300, -1e308),
    (5e-324, 0.5, 5e-324), (np.inf, 0.0, 1.0), (1e-160, 1e-160, 1e-320)])
def test_fused_multiply_add_at_the_ends_of_the_range(a, b, c):
    with np.errstate(all="ignore"):
        found = arithmetic.fused_multiply_add_64(np.float64(a), np.float64(b), np.float64(c))
    np.testing.assert_array_equal(found, arithmetic._library_fma(a, b, c))
    assert np.signbit(found) == np.signbit(arithmetic._library_fma(a, b, c)) or np.isnan(found)
