"""read-ptx: the text of a module becomes kernels of basic blocks.

    "$L1: add.s32 %r1, %r2, 1; @%p1 bra $L1;"
    →  Block((Instruction("add", ("s32",), ("%r1", "%r2", "1")),
              Instruction("bra", (), ("$L1",), guard="%p1")))

A guard on anything but a branch becomes a branch round a block with that instruction alone, so
that the rest of the simulator knows one kind of divergence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.plugin import DeviceError

#: Bytes of a value of each type; of "pred", in the simulator.
SIZES: Final = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8,
    "f64": 8, "tf32": 4,
}
#: Instructions at which the lanes of a warp meet.
WARP_OPCODES: Final = frozenset({"shfl", "vote", "mma", "activemask", "redux", "match"})
_ENDS: Final = frozenset({"bra", "ret", "exit", "trap", "bar", "barrier"})
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)[^{]*\{")
_PARAM: Final = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)[^,\[]*?([\w$]+)\s*(?:,|$)")
_STORAGE: Final = re.compile(
    r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)\s*(?:\[(\d*)\])?\s*;")
_DATA: Final = re.compile(r"\.(?:const|global)\s+(?:\.align\s+\d+\s+)?\.\w+\s+([\w$]+)")
_REGISTERS: Final = re.compile(r"\.reg\s+\.(\w+)\s+([^;]+);")
_STATEMENT: Final = re.compile(r"(?:@(!?)(%[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_OPERAND: Final = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_LABEL: Final = re.compile(r"\s*([\w$]+)\s*:(?!:)")


class PtxError(DeviceError):
    """A text that is no PTX, or PTX that the simulator does not know."""


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        opcode: What stands before the first dot.
        modifiers: What stands between dots.
        operands: Texts; a vector or an address with its brackets.
        guard: Predicate register, or "".
        negated: It runs where the predicate is false.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False

    @property
    def text(self) -> str:
        """Opcode and modifiers, as in the text."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass
class Block:
    """Instructions that run together; `meets` where lanes of a warp wait for each other first."""

    instructions: list[Instruction] = field(default_factory=list)
    meets: bool = False


@dataclass
class Kernel:
    """One entry of a module.

    Attributes:
        name: Of the entry.
        parameters: Name and type of each.
        registers: Type of each register, or of a family of them such as ``%rd``.
        shared: First byte of each variable in work-group memory.
        shared_bytes: Of a work group.
        local: First byte of each variable in a thread's own memory.
        local_bytes: Of a thread.
        blocks: Basic blocks; control falls from each to the next.
        labels: Number of the block that a label stands before.
    """

    name: str
    parameters: list[tuple[str, str]]
    registers: dict[str, str] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    blocks: list[Block] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def register_type(self, register: str) -> str:
        """Type of a register.

        Raises:
            PtxError: It is not declared.
        """
        found = self.registers.get(register) or self.registers.get(register.rstrip("0123456789"))
        if found is None:
            raise PtxError(f"{self.name}: the register {register} is not declared")
        return found


def read_ptx(text: str) -> dict[str, Kernel]:
    """The kernels of a module by name.

    Raises:
        PtxError: It holds no kernel, or something that the simulator does not know.
    """
    text = _COMMENT.sub("", text)
    kernels: dict[str, Kernel] = {}
    outside, position = [], 0
    for found in _ENTRY.finditer(text):
        if found.start() < position:
            continue
        outside.append(text[position:found.start()])
        position = _closing(text, found.end())
        kernel = Kernel(found[1], [(m[2], m[1]) for m in _PARAM.finditer(found[2].strip())])
        kernels[kernel.name] = kernel
        _read_body(kernel, text[found.end():position - 1])
    outside.append(text[position:])
    if not kernels:
        raise PtxError("this is no PTX with a kernel")
    rest = "".join(outside)
    data = _DATA.search(rest)
    if data:
        raise PtxError(f"the simulator has no data of a module: {data[1]}")
    for kernel in kernels.values():
        _declare_storage(kernel, rest)
    return kernels


def _closing(text: str, position: int) -> int:
    """Position behind the brace that closes the one before `position`."""
    depth = 1
    while depth:
        if position >= len(text):
            raise PtxError("a brace is not closed")
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
    return position


def _declare_storage(kernel: Kernel, text: str) -> None:
    for space, alignment, kind, name, count in _STORAGE.findall(text):
        table = kernel.shared if space == "shared" else kernel.local
        if name in table:
            continue
        align = int(alignment or SIZES[kind])
        used = kernel.shared_bytes if space == "shared" else kernel.local_bytes
        table[name] = start = -(-used // align) * align
        end = start + int(count or 1) * SIZES[kind]
        if space == "shared":
            kernel.shared_bytes = end
        else:
            kernel.local_bytes = end


def _read_body(kernel: Kernel, body: str) -> None:
    for kind, names in _REGISTERS.findall(body):
        for name in names.split(","):
            kernel.registers[re.sub(r"<\d+>", "", name).strip()] = kind
    _declare_storage(kernel, body)
    reader = _BlockReader(kernel)
    for statement in body.split(";"):
        reader.read(statement)
    reader.finish()


class _BlockReader:
    """Cuts statements into basic blocks."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.open()

    def open(self, *, meets: bool = False) -> None:
        """Begin a block, unless the last one is still empty."""
        blocks = self.kernel.blocks
        if not blocks or blocks[-1].instructions:
            blocks.append(Block())
        blocks[-1].meets = blocks[-1].meets or meets

    def read(self, statement: str) -> None:
        """Labels and an instruction, or a directive."""
        while label := _LABEL.match(statement):
            self.open()
            self.kernel.labels[label[1]] = len(self.kernel.blocks) - 1
            statement = statement[label.end():]
        statement = statement.strip().strip("{}").strip() if "," not in statement else (
            statement.strip())
        if not statement or statement.startswith("."):
            return
        found = _STATEMENT.fullmatch(statement)
        if found is None:
            raise PtxError(f"{self.kernel.name}: no instruction: {statement}")
        opcode, *modifiers = found[3].replace("::", "_").split(".")
        self._add(Instruction(opcode, tuple(modifiers), tuple(_OPERAND.findall(found[4])),
                              found[2] or "", bool(found[1])))

    def _add(self, instruction: Instruction) -> None:
        blocks, opcode = self.kernel.blocks, instruction.opcode
        if instruction.guard and opcode != "bra":
            # Branch round it: the label is the block that follows the instruction's own.
            around = f"around {len(blocks)}"
            blocks[-1].instructions.append(Instruction(
                "bra", (), (around,), instruction.guard, not instruction.negated))
            self.open()
            self._add(instruction._replace(guard="", negated=False))
            self.open()
            self.kernel.labels[around] = len(blocks) - 1
            return
        in_warp = opcode in WARP_OPCODES or (opcode == "bar" and instruction.modifiers[0] == "warp")
        if in_warp:
            self.open(meets=True)
        self.kernel.blocks[-1].instructions.append(instruction)
        if opcode in _ENDS:
            self.open()

    def finish(self) -> None:
        """Control that falls off the end returns."""
        last = self.kernel.blocks[-1].instructions
        if not last or last[-1].opcode not in ("ret", "exit"):
            last.append(Instruction("ret", (), ()))
