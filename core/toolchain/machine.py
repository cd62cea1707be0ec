"""What code is made for: triple, processor and features; and what that means to the compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from core.foundation.lazy_import import lazy_import
from core.ir import dtypes
from core.plugin import Target

if TYPE_CHECKING:
    from llvmlite import binding
else:
    binding = lazy_import("llvmlite.binding", "compiling for a processor")

_V2: Final = frozenset({"sse4.1"})
_V3: Final = _V2 | {"avx", "avx2", "fma", "f16c"}
_MISCOMPILED: Final = ("avx512vnni", "avxvnni")
# Levels of the x86-64 psABI: what these names of a processor imply.
_IMPLIED: Final = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V3 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
}
_X86: Final = ("x86_64", "amd64")
_COMPUTED: Final = frozenset({
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64,
})


@dataclass(frozen=True)
class Machine:
    """A processor as LLVM names it.

    Args:
        triple: ``"x86_64-unknown-linux-gnu"``, ``"aarch64-unknown-linux-gnu"``.
        cpu: LLVM's name of the processor: ``"znver3"``, ``"x86-64-v3"``, ``"generic"``.
        features: ``"+avx2,+fma,-avx512f"``; what `cpu` implies need not be named for code to
            use it, but `target_of` believes only what is named here or by a psABI level.
    """

    triple: str
    cpu: str = "generic"
    features: str = ""

    @cached_property
    def feature_set(self) -> frozenset[str]:
        """Names of the features that are known to be there."""
        listed = [f.strip() for f in self.features.split(",") if f.strip()]
        there = {f[1:] for f in listed if f[0] == "+"}
        missing = {f[1:] for f in listed if f[0] == "-"}
        return frozenset(_IMPLIED.get(self.cpu, frozenset()) | there) - missing

    @property
    def is_x86(self) -> bool:
        """Whether this is a 64-bit x86 processor."""
        return self.triple.startswith(_X86)

    @property
    def has_fma(self) -> bool:
        """Whether there is a fused multiply-add instruction."""
        return not self.is_x86 or bool(self.feature_set & {"fma", "avx512f"})

    @property
    def has_rounding(self) -> bool:
        """Whether an instruction rounds floats to integers."""
        return not self.is_x86 or bool(self.feature_set & {"sse4.1", "avx"})

    @property
    def has_float16(self) -> bool:
        """Whether instructions convert between float16 and float32."""
        return not self.is_x86 or bool(self.feature_set & {"f16c", "avx512f"})

    @property
    def architecture(self) -> str:
        """Exactly what code is made for, in one word: features by a digest of theirs."""
        digest = blake2b(self.features.encode(), digest_size=4).hexdigest()
        return f"{self.triple}:{self.cpu}:{digest}"


@cache
def host_machine() -> Machine:
    """The processor that this process runs on."""
    features = binding.get_host_cpu_features().flatten()
    # LLVM (seen in that of llvmlite 0.50) makes VPDPBUSD of a sum of products of bools and
    # loses terms: `test_a_sum_of_products_of_bools` in tests/render. Nothing else here needs VNNI.
    without = ",".join(f"-{name}" for name in _MISCOMPILED if f"+{name}" in features.split(","))
    features = ",".join(filter(None, (features, without)))
    machine = Machine(binding.get_process_triple(), binding.get_host_cpu_name(), features)
    if "avx512f" in machine.feature_set:
        # Explicit vectors of 64 bytes would be split in two where LLVM prefers 32.
        machine = replace(machine, features=f"{features},-prefer-256-bit")
    return machine


def vector_registers(machine: Machine) -> tuple[int, int]:
    """(bytes of a vector register, their number)."""
    if not machine.is_x86:
        return 16, 32
    if "avx512f" in machine.feature_set:
        return 64, 32
    return (32, 16) if machine.feature_set & {"avx2", "avx"} else (16, 16)


def target_of(machine: Machine, name: str = "CPU", *, cores: int = 1) -> Target:
    """What kernels for a processor may use; caches are those of a small core of today.

    Args:
        machine: The processor.
        name: Family of the device.
        cores: Threads that a kernel is split over.
    """
    vector_bytes, registers = vector_registers(machine)
    float16 = {dtypes.float16} if machine.has_float16 else set()
    return Target(
        name=name, architecture=machine.architecture, dtypes=_COMPUTED | float16,
        storage_dtypes=frozenset(float16), vector_bytes=vector_bytes, vector_registers=registers,
        l1_bytes=32 * 1024, l2_bytes=512 * 1024, cores=cores, has_threads=cores > 1,
        scratch_bytes=1024 * 1024, fma=machine.has_fma, timestamps=True, fork_safe=True,
        wide_index=True,
        pause="llvm.x86.sse2.pause" if machine.is_x86 else "llvm.aarch64.hint i32 1",
    )
