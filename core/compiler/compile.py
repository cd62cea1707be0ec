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
    started = time.perf_counter()
    generated = []
    with quiet_collector(), ProgressLine(opened.name, len(sinks)) as line:
        for sink in sinks:
            generated.append(_generate(sink, opened))
            line.show(len(generated))
    STATISTICS.generate_seconds += time.perf_counter() - started
    binaries, hits = _binaries({program.arg.name: text_ for program, text_ in generated}, opened)
    STATISTICS.disk_hits += hits
    for sink, (program, source) in zip(sinks, generated, strict=True):
        binary = UOp(Op.BINARY, (), binaries[program.arg.name])
        _programs[sink, id(opened)] = program.replace(
            src=(*program.src, UOp(Op.SOURCE, (), source), binary))
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


def _binaries(
    sources: Mapping[str, str], opened: OpenedDevice
) -> tuple[dict[str, bytes], int]:
    """(binaries of rendered programs by name, how many were on the disk); the others are made."""
    kept = bool(opened.renderer.compiler.key)
    found: dict[str, bytes] = {}
    for name, source in sources.items():
        binary = BINARIES.get(_key(source, opened)) if kept else None
        if binary is not None:
            found[name] = binary
            if events.observers:
                events.emit(events.CacheHit(device=opened.name, program=name))
    missing = {name: source for name, source in sources.items() if name not in found}
    for name, binary in _run_compiler(missing, opened).items() if missing else ():
        found[name] = binary
        if kept:
            BINARIES.put(_key(sources[name], opened), binary)
    return found, len(sources) - len(missing)


def _run_compiler(sources: Mapping[str, str], opened: OpenedDevice) -> dict[str, bytes]:
    started = time.perf_counter()
    try:
        binaries = opened.renderer.compiler.compile(list(sources.values()))
    except CompileError as error:
        if events.observers:
            events.emit(events.Failed(device=opened.name, stage="compile", reason=str(error)))
        raise
    seconds = time.perf_counter() - started
    STATISTICS.backend_seconds += seconds
    compiled = dict(zip(sources, binaries, strict=True))
    for name, binary in compiled.items():
        if events.observers:
            events.emit(events.Compiled(device=opened.name, program=name,
                                        size_bytes=len(binary), seconds=seconds / len(compiled)))
        if settings.DEBUG >= 1:
            milliseconds = seconds / len(compiled) * 1e3
            sys.stderr.write(f"{opened.name:6} compiled {name} to {len(binary)} bytes "
                             f"in {milliseconds:.1f} ms\n")
    return compiled


def compile_linears(programs: Mapping[str, UOp], opened: OpenedDevice) -> dict[str, bytes]:
    """Binaries of finished programs: a device's helpers, not kernels; kept on disk like these.

    Args:
        programs: LINEAR of each program by name.
        opened: The device that is to run them.

    Raises:
        CompileError: One does not compile.
    """
    sources = {name: opened.renderer.render(name, linear) for name, linear in programs.items()}
    return _binaries(sources, opened)[0]


def _key(source: str, opened: OpenedDevice) -> str:
    """Everything that a binary depends on."""
    parts = (opened.renderer.compiler.key, opened.target.architecture, opened.renderer.name,
             *opened.extensions, source)
    return "\0".join(parts)
