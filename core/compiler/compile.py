"""compile-linear: kernels of a schedule become programs with binaries.

    CALL(SINK, ...) → CALL(PROGRAM(SINK, LINEAR, SOURCE, BINARY), ...)

Equal kernels compile once in a process; binaries are kept on disk, keyed by the rendered text,
the compiler's key and the identity of extensions. All texts that are missing are given to the
compiler in one call.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from core.compiler.disk_cache import DiskCache
from core.compiler.passes import quiet_collector
from core.compiler.pipeline import generate
from core.compiler.progress import ProgressLine
from core.foundation import events
from core.foundation.errors import CompileError
from core.foundation.settings import settings
from core.ir import Op, UOp, text
from core.plugin.opening import OpenedDevice

_REMEMBERED: Final = 4096
_programs: OrderedDict[tuple[UOp, int], UOp] = OrderedDict()
BINARIES: Final = DiskCache("binaries")


@dataclass
class CompileStatistics:
    """Time spent on compiling since the process started."""

    kernels: int = 0
    disk_hits: int = 0
    generate_seconds: float = 0.0
    backend_seconds: float = 0.0


STATISTICS: Final = CompileStatistics()


def program_name(sink: UOp) -> str:
    """A name for people with a digest of the kernel, so that it is unique and always the same."""
    digest = hashlib.sha256(text(sink).encode()).hexdigest()[:10]
    return f"{sink.arg.name}_{digest}"


def compile_linear(linear: UOp, device: Callable[[str | None], OpenedDevice]) -> UOp:
    """Compile every kernel of a schedule.

    Args:
        linear: LINEAR of CALLs with SINK, COPY or PROGRAM bodies.
        device: The open device of a name; None is the schedule's own.

    Raises:
        CompileError: A kernel does not compile; the error carries its text.
    """
    wanted: dict[OpenedDevice, list[UOp]] = {}
    owners: list[OpenedDevice | None] = []
    for call in linear.src:
        if call.src[0].op is not Op.SINK:
            owners.append(None)
            continue
        opened = device(_device_name(call))
        owners.append(opened)
        if (call.src[0], id(opened)) not in _programs:
            wanted.setdefault(opened, []).append(call.src[0])
    for opened, sinks in wanted.items():
        _compile_kernels(list(dict.fromkeys(sinks)), opened)
    calls = [
        call if opened is None else call.replace(
            src=(_programs[call.src[0], id(opened)], *call.src[1:]))
        for call, opened in zip(linear.src, owners, strict=True)
    ]
    while len(_programs) > _REMEMBERED:
        _programs.popitem(last=False)
    return linear.replace(src=tuple(calls))


def _device_name(call: UOp) -> str | None:
    """Device of a CALL: that of its first argument with storage."""
    for argument in call.src[1:]:
        node = argument
        while node.op in (Op.SHRINK, Op.BITCAST):
            node = node.src[0]
        if node.arg.device:
            name: str = node.arg.device
            return name
    return None


def _compile_kernels(sinks: Sequence[UOp], opened: OpenedDevice) -> None:
    renderer = opened.renderer
    started = time.perf_counter()
    generated = []
    with quiet_collector(), ProgressLine(opened.name, len(sinks)) as line:
        for sink in sinks:
            generated.append(_generate(sink, opened))
            line.show(len(generated))
    STATISTICS.generate_seconds += time.perf_counter() - started
    binaries: list[bytes | None] = []
    for program, source in generated:
        binaries.append(BINARIES.get(_key(source, opened)) if renderer.compiler.key else None)
        if binaries[-1] is not None:
            STATISTICS.disk_hits += 1
            if events.observers:
                events.emit(events.CacheHit(device=opened.name, program=program.arg.name))
    missing = [k for k, binary in enumerate(binaries) if binary is None]
    if missing:
        for k, made in zip(missing, _run_compiler(
                [generated[k] for k in missing], opened), strict=True):
            binaries[k] = made
            if renderer.compiler.key:
                BINARIES.put(_key(generated[k][1], opened), made)
    for sink, (program, source), binary in zip(sinks, generated, binaries, strict=True):
        compiled = program.replace(
            src=(*program.src, UOp(Op.SOURCE, (), source), UOp(Op.BINARY, (), binary)))
        _programs[sink, id(opened)] = compiled
        STATISTICS.kernels += 1


def _generate(sink: UOp, opened: OpenedDevice) -> tuple[UOp, str]:
    """(PROGRAM(sink, linear), its text)."""
    program = generate(sink, opened.target, opened.renderer.code_for_op)
    program = program.replace(arg=program.arg._replace(name=program_name(sink)))
    try:
        source = opened.renderer.render(program.arg.name, program.src[1])
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"the renderer {opened.renderer.name} of {opened.name} cannot print the kernel "
            f"{program.arg.name}: {error}", graph=text(program.src[1])) from error
    return program, source


def _run_compiler(generated: Sequence[tuple[UOp, str]], opened: OpenedDevice) -> list[bytes]:
    started = time.perf_counter()
    try:
        binaries = opened.renderer.compiler.compile([source for _, source in generated])
    except CompileError as error:
        if events.observers:
            events.emit(events.Failed(device=opened.name, stage="compile", reason=str(error)))
        raise
    seconds = time.perf_counter() - started
    STATISTICS.backend_seconds += seconds
    for (program, _), binary in zip(generated, binaries, strict=True):
        if events.observers:
            events.emit(events.Compiled(device=opened.name, program=program.arg.name,
                                        size_bytes=len(binary), seconds=seconds / len(generated)))
        if settings.DEBUG >= 1:
            milliseconds = seconds / len(generated) * 1e3
            sys.stderr.write(f"{opened.name:6} compiled {program.arg.name} to {len(binary)} bytes "
                             f"in {milliseconds:.1f} ms\n")
    return binaries


def compile_linears(programs: Mapping[str, UOp], opened: OpenedDevice) -> dict[str, bytes]:
    """Binaries of finished programs: a device's helpers, not kernels; kept on disk like these.

    Args:
        programs: LINEAR of each program by name.
        opened: The device that is to run them.

    Raises:
        CompileError: One does not compile.
    """
    found: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    for name, linear in programs.items():
        source = opened.renderer.render(name, linear)
        binary = BINARIES.get(_key(source, opened)) if opened.renderer.compiler.key else None
        if binary is None:
            missing[name] = source
        else:
            found[name] = binary
    if missing:
        binaries = opened.renderer.compiler.compile(list(missing.values()))
        for (name, source), binary in zip(missing.items(), binaries, strict=True):
            found[name] = binary
            if opened.renderer.compiler.key:
                BINARIES.put(_key(source, opened), binary)
    return found


def _key(source: str, opened: OpenedDevice) -> str:
    """Everything that a binary depends on."""
    parts = (opened.renderer.compiler.key, opened.target.architecture, opened.renderer.name,
             *opened.extensions, source)
    return "\0".join(parts)
