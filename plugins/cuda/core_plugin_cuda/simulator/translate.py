"""translate-ptx: each basic block becomes a Python function of numpy operations.

    "add.s32 %r3, %r1, 1;"  →  v_r3 = R[4][ix] + T['s32'](1)

A register that one block alone uses is a local variable of the function; others are arrays over
all lanes, of which a block reads and writes those of its group (`ix`). Registers hold unsigned
integers of their size; instructions see them in their own type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core_plugin_cuda.simulator import arithmetic
from core_plugin_cuda.simulator.arithmetic import DTYPES, UNSIGNED
from core_plugin_cuda.simulator.forms import FORMS, RELATIONS, ROOTS, SYMBOLS
from core_plugin_cuda.simulator.memory import LOCAL_WINDOW, SHARED_WINDOW
from core_plugin_cuda.simulator.ptx import SIZES, Block, Instruction, Kernel, PtxError

_ADDRESS: Final = re.compile(r"\[\s*([%$\w.]+)\s*(?:\+?\s*(-?\d+))?\s*\]")
_PER_LANE: Final = re.compile(r"%(?:tid|ctaid)\.[xyz]|%laneid|%warpid")
_SAME: Final = re.compile(r"%(?:ntid|nctaid)\.[xyz]")
_SPACES: Final = ("global", "shared", "local", "param", "const")
_NO_RESULT: Final = frozenset({"st", "bra", "ret", "exit", "bar", "barrier", "red", "membar",
                               "fence", "trap", "prefetch", "cp"})


@dataclass(frozen=True)
class Translated:
    """A kernel as functions.

    Attributes:
        blocks: A function for each basic block: (batch, lanes, their number) → where they go.
        meets: Whether lanes of a warp wait for each other before a block.
        registers: numpy's dtype of each register that outlives a block.
        shared_piece: Bytes of the smallest access to work-group memory.
        source: The functions' text, for people.
    """

    blocks: tuple[Callable[[Any, Any, int], Sequence[tuple[int, Any]]], ...]
    meets: tuple[bool, ...]
    registers: tuple[Any, ...]
    shared_piece: int
    source: str

    def order(self, block: int) -> tuple[bool, int]:
        """What runs first: blocks that wait for nobody, and of those the first."""
        return self.meets[block], block


def translate(kernel: Kernel) -> Translated:
    """The functions of a kernel.

    Raises:
        PtxError: It has an instruction that is not known here.
    """
    names = _long_lived(kernel)
    lines: list[str] = []
    for number, block in enumerate(kernel.blocks):
        lines += _BlockWriter(kernel, names, number).write(block)
    source = "\n".join(lines)
    scope: dict[str, Any] = {
        "np": np, "A": arithmetic, "T": DTYPES, "U": UNSIGNED, "FUSED": arithmetic.FUSED}
    exec(compile(source, f"<{kernel.name}>", "exec"), scope)  # noqa: S102 -- text written above
    return Translated(
        tuple(scope[f"b{k}"] for k in range(len(kernel.blocks))),
        tuple(block.meets for block in kernel.blocks),
        tuple(np.bool_ if kind == "pred" else UNSIGNED[SIZES[kind]]
              for kind in map(kernel.register_type, names)),
        _smallest_shared(kernel), source)


def _smallest_shared(kernel: Kernel) -> int:
    sizes = [SIZES[i.modifiers[-1]] for block in kernel.blocks for i in block.instructions
             if i.opcode in ("ld", "st", "atom", "red")
             and any(m.startswith("shared") for m in i.modifiers)]
    generic = any(i.opcode in ("ld", "st") and not set(_SPACES) & set(i.modifiers)
                  for block in kernel.blocks for i in block.instructions)
    return 1 if generic else min(sizes, default=4)


def _registers(text: str) -> list[str]:
    return [r for r in re.findall(r"%[\w$]+(?:\.[xyz])?", text)
            if not (_PER_LANE.fullmatch(r) or _SAME.fullmatch(r))]


def _long_lived(kernel: Kernel) -> dict[str, int]:
    """Registers that more than one block uses, or that one uses before it sets them."""
    users: dict[str, set[int]] = {}
    outlive: set[str] = set()
    for number, block in enumerate(kernel.blocks):
        known: set[str] = set()
        for item in block.instructions:
            results = item.operands[:1] if item.opcode not in _NO_RESULT else ()
            read = " ".join((item.guard, *item.operands[len(results):]))
            for register in _registers(read):
                users.setdefault(register, set()).add(number)
                if register not in known:
                    outlive.add(register)
            for register in _registers(" ".join(results)):
                users.setdefault(register, set()).add(number)
                known.add(register)
    outlive |= {register for register, blocks in users.items() if len(blocks) > 1}
    return {register: k for k, register in enumerate(sorted(outlive))}


class _BlockWriter:
    """Writes the function of one block."""

    def __init__(self, kernel: Kernel, names: dict[str, int], number: int) -> None:
        self.kernel, self.names, self.number = kernel, names, number
        self.lines: list[str] = []
        self.special: dict[str, Callable[[Instruction], None]] = {
            "ld": self._load, "st": self._store, "atom": self._atomic, "red": self._atomic,
            "mov": self._move, "cvta": self._address, "cvt": self._convert, "setp": self._compare,
            "set": self._compare, "mul": self._multiply, "mad": self._multiply,
            "shl": self._shift, "shr": self._shift, "shf": self._funnel, "min": self._extreme,
            "max": self._extreme, "div": self._divide, "rem": self._divide, "bfe": self._field,
            "bfi": self._field, "prmt": self._permute, "lop3": self._logic, "testp": self._test,
            "dp4a": self._bytes,
            "shfl": self._shuffle, "vote": self._vote, "activemask": self._active,
            "mma": self._matrix, "add": self._simple, "sub": self._simple,
        }

    def write(self, block: Block) -> list[str]:
        """Its lines."""
        ended = False
        for item in block.instructions:
            ended = self._control(item)
            if not ended:
                self._write(item)
        if not ended:
            self.lines.append(f"return (({self.number + 1}, ix),)")
        head = f"def b{self.number}(S, ix, n):"
        return [head, "  R = S.registers", *("  " + line for line in self.lines)]

    def _write(self, item: Instruction) -> None:
        opcode, kind = item.opcode, item.modifiers[-1] if item.modifiers else ""
        if opcode in ("membar", "fence", "prefetch"):
            return
        if opcode == "bar":  # of a warp; whole groups meet where a block ends
            self.lines.append(f"S.meet_in_warp({self.read(item.operands[0], 'b32')}, ix)")
        elif opcode in self.special:
            self.special[opcode](item)
        elif opcode in ROOTS:
            self._set(item, ROOTS[opcode].format(f"np.asarray({self._operands(item)[0]})"))
        elif opcode in FORMS:
            values = self._operands(item)
            if opcode == "selp":
                values[2] = self.read(item.operands[3], "pred")
            result = "b32" if opcode in ("popc", "clz") else kind
            self.assign(item.operands[0], FORMS[opcode].format(*values, kind=kind), result)
        elif opcode in SYMBOLS:
            self._simple(item)
        else:
            raise self._unknown(item)

    def _unknown(self, item: Instruction) -> PtxError:
        return PtxError(f"the simulator does not know {item.text} (kernel {self.kernel.name})")

    def _control(self, item: Instruction) -> bool:
        """Write what ends a block; whether it is that."""
        opcode, behind = item.opcode, self.number + 1
        if opcode == "bra":
            target = self.kernel.labels[item.operands[0]]
            if not item.guard:
                self.lines.append(f"return (({target}, ix),)")
            else:
                taken = self.read(item.guard, "pred")
                self.lines.append(f"return S.branch(ix, {'~' if item.negated else ''}{taken}, "
                                  f"{target}, {behind})")
        elif opcode in ("ret", "exit"):
            self.lines.append("return ()")
        elif opcode == "barrier" or (opcode == "bar" and "warp" not in item.modifiers):
            if "red" in item.modifiers or item.operands[:1] not in ((), ("0",)):
                raise self._unknown(item)
            self.lines.append(f"return S.park({behind}, ix)")
        elif opcode == "trap":
            self.lines.append("S.trap(ix); return ()")
        else:
            return False
        return True

    # -- operands ---------------------------------------------------------------------------

    def read(self, operand: str, kind: str) -> str:
        """An operand in a type."""
        dtype = f"T[{kind!r}]"
        negated, operand = ("~", operand[1:]) if operand[0] == "!" else ("", operand)
        if _SAME.fullmatch(operand):
            return f"S.special[{operand!r}]"
        if _PER_LANE.fullmatch(operand):
            return f"S.special[{operand!r}][ix]" + ("" if kind[0] in "ub" else f".view({dtype})")
        if operand[0] == "%":
            own = self.kernel.register_type(operand)
            text = (f"R[{self.names[operand]}][ix]" if operand in self.names
                    else _variable(operand))
            if own == "pred":
                return negated + text
            if SIZES[own] != SIZES[kind]:
                return f"{text}.astype(U[{SIZES[kind]}]).view({dtype})"
            return text if kind[0] in "ub" else f"{text}.view({dtype})"
        return self._constant(operand, kind)

    def _constant(self, operand: str, kind: str) -> str:
        if operand in self.kernel.shared:
            return f"T[{kind!r}]({self.kernel.shared[operand]})"
        if operand in self.kernel.local:
            return f"T[{kind!r}]({self.kernel.local[operand]})"
        size = SIZES[kind]
        if operand[:2].lower() in ("0f", "0d"):
            double = operand[1].lower() == "d"
            value = struct.unpack(">d" if double else ">f", bytes.fromhex(operand[2:]))[0]
            packed = struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], value)
            if value != value:
                packed = bytes.fromhex(operand[2:])[::-1]
            bits = int.from_bytes(packed, "little")
        elif kind == "pred":
            return f"np.bool_({bool(int(operand, 0))})"
        else:
            try:
                bits = int(operand.rstrip("U"), 0) & ((1 << 8 * size) - 1)
            except ValueError:
                raise PtxError(f"{self.kernel.name}: no operand: {operand}") from None
        return f"U[{size}]({bits}).view(T[{kind!r}])"

    def assign(self, register: str, value: str, kind: str) -> None:
        """Set a register to a value of a type."""
        if register == "_":
            return
        own = self.kernel.register_type(register)
        if own != "pred":
            size = SIZES[own]
            if SIZES[kind] < size:
                wide = f"T['s{8 * size}']" if kind[0] == "s" else f"U[{size}]"
                value = f"({value}).view(T[{kind!r}]).astype({wide}).view(U[{size}])"
            elif kind[0] not in "ub":
                value = f"({value}).view(U[{size}])"
        if register in self.names:
            self.lines.append(f"R[{self.names[register]}][ix] = {value}")
        else:
            self.lines.append(f"{_variable(register)} = {value}")

    def _operands(self, item: Instruction) -> list[str]:
        kind = item.modifiers[-1]
        return [self.read(o, kind) if not (item.opcode == "selp" and k == 2) else ""
                for k, o in enumerate(item.operands[1:])]

    def _set(self, item: Instruction, value: str) -> None:
        kind = item.modifiers[-1]
        if "ftz" in item.modifiers:
            value = f"np.where(np.abs({value}) < 2.0**-126, T['f32'](0), {value})"
        if "sat" in item.modifiers and kind[0] == "f":
            value = f"A.convert({value}, {kind!r}, {kind!r}, ('sat',))"
        self.assign(item.operands[0], value, kind)

    # -- arithmetic -------------------------------------------------------------------------

    def _simple(self, item: Instruction) -> None:
        if {"cc", "sat"} & set(item.modifiers) and item.modifiers[-1][0] != "f":
            raise self._unknown(item)
        first, second = self._operands(item)
        self._set(item, f"{first} {SYMBOLS[item.opcode]} {second}")

    def _multiply(self, item: Instruction) -> None:
        kind, values = item.modifiers[-1], self._operands(item)
        if "cc" in item.modifiers:
            raise self._unknown(item)
        result = kind
        if "wide" in item.modifiers:
            product = f"A.multiply_wide({values[0]}, {values[1]}, {kind!r})"
            result = f"{kind[0]}{2 * int(kind[1:])}"
        elif "hi" in item.modifiers:
            product = f"A.multiply_high({values[0]}, {values[1]}, {kind!r})"
        else:
            product = f"{values[0]} * {values[1]}"
        if item.opcode == "mad":
            if kind[0] == "f":
                product = f"FUSED[{kind!r}]({', '.join(values)})"
            else:
                product = f"{product} + {self.read(item.operands[3], result)}"
        self.assign(item.operands[0], product, result)

    def _divide(self, item: Instruction) -> None:
        first, second = self._operands(item)
        if item.modifiers[-1][0] == "f":
            self._set(item, f"{first} / {second}")
        else:
            name = "divide" if item.opcode == "div" else "remainder"
            self._set(item, f"A.{name}({first}, {second})")

    def _extreme(self, item: Instruction) -> None:
        first, second = self._operands(item)
        if item.modifiers[-1][0] == "f":
            name = "least" if item.opcode == "min" else "greatest"
            keep = "NaN" in item.modifiers
            self._set(item, f"A.{name}({first}, {second}, keep_nan={keep})")
        else:
            self._set(item, f"np.{item.opcode}imum({first}, {second})")

    def _shift(self, item: Instruction) -> None:
        kind = item.modifiers[-1]
        value, amount = self.read(item.operands[1], kind), self.read(item.operands[2], "u32")
        self._set(item, f"A.shift({value}, {amount}, left={item.opcode == 'shl'})")

    def _funnel(self, item: Instruction) -> None:
        low, high, amount = (self.read(o, "u32") for o in item.operands[1:])
        self.assign(item.operands[0], f"A.funnel_shift({low}, {high}, {amount}, "
                    f"left={'l' in item.modifiers}, clamp={'clamp' in item.modifiers})", "u32")

    def _field(self, item: Instruction) -> None:
        kind, places = item.modifiers[-1], 2 if item.opcode == "bfi" else 1
        values = [self.read(o, kind if k < places else "u32")
                  for k, o in enumerate(item.operands[1:])]
        name = "insert_field" if item.opcode == "bfi" else "extract_field"
        self._set(item, f"A.{name}({', '.join(values)})")

    def _permute(self, item: Instruction) -> None:
        if item.modifiers != ("b32",):
            raise self._unknown(item)
        self._set(item, f"A.permute_bytes({', '.join(self._operands(item))})")

    def _logic(self, item: Instruction) -> None:
        values = [self.read(o, "b32") for o in item.operands[1:4]]
        self._set(item, f"A.three_input_logic({', '.join(values)}, {int(item.operands[4], 0)})")

    def _bytes(self, item: Instruction) -> None:
        values = ", ".join(self.read(o, "b32") for o in item.operands[1:])
        self.assign(item.operands[0], f"A.dot_of_bytes({values}, {item.modifiers!r})", "u32")

    def _test(self, item: Instruction) -> None:
        name = {"number": "~np.isnan", "notanumber": "np.isnan", "finite": "np.isfinite",
                "infinite": "np.isinf"}.get(item.modifiers[0])
        if name is None:
            raise self._unknown(item)
        self.assign(item.operands[0], f"{name}({self._operands(item)[0]})", "pred")

    def _compare(self, item: Instruction) -> None:
        kind, relation = item.modifiers[-1], item.modifiers[0]
        first, second = (self.read(o, kind) for o in item.operands[1:3])
        either = f"(np.isnan({first}) | np.isnan({second}))"
        if relation in ("nan", "num"):
            value = either if relation == "nan" else f"~{either}"
        elif kind[0] == "f" and relation[-1] == "u":
            value = f"(({first} {RELATIONS[relation[:2]]} {second}) | {either})"
        else:
            value = f"({first} {RELATIONS[relation]} {second})"
            if kind[0] == "f" and relation == "ne":
                value = f"({value} & ~{either})"
        joined = next((m for m in item.modifiers[1:] if m in ("and", "or", "xor")), None)
        if joined:
            value = f"{value} {SYMBOLS[joined]} {self.read(item.operands[3], 'pred')}"
        if item.opcode == "set" or "|" in item.operands[0]:
            raise self._unknown(item)
        self.assign(item.operands[0], value, "pred")

    def _convert(self, item: Instruction) -> None:
        kinds = [m for m in item.modifiers if m in SIZES]
        new, old = kinds[-2:]
        value = f"A.convert({self.read(item.operands[1], old)}, {new!r}, {old!r}, "
        self.assign(item.operands[0], f"{value}{item.modifiers!r})", new)

    def _move(self, item: Instruction) -> None:
        kind, (to, source) = item.modifiers[-1], item.operands
        if source[0] == "{":
            parts = _elements(source)
            bits = 8 * SIZES[kind] // len(parts)
            self._set(item, " | ".join(
                f"({self.read(p, f'u{bits}')}.astype(U[{SIZES[kind]}]) << "
                f"U[{SIZES[kind]}]({k * bits}))" for k, p in enumerate(parts)))
        elif to[0] == "{":
            parts = _elements(to)
            bits = 8 * SIZES[kind] // len(parts)
            self.lines.append(f"whole = {self.read(source, f'u{8 * SIZES[kind]}')}")
            for k, part in enumerate(parts):
                self.assign(part, f"(whole >> U[{SIZES[kind]}]({k * bits}))"
                            f".astype(U[{bits // 8}])", f"u{bits}")
        else:
            # A copy: the register it comes from may change while a variable still holds it.
            copied = "" if kind == "pred" and source[0] != "%" else ".copy()"
            self._set(item, f"({self.read(source, kind)}){copied}")

    def _address(self, item: Instruction) -> None:
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(
            next((m for m in item.modifiers if m in _SPACES), ""), 0)
        sign = "-" if "to" in item.modifiers else "+"
        self.assign(item.operands[0],
                    f"{self.read(item.operands[1], 'u64')} {sign} T['u64']({window})", "u64")

    # -- memory -----------------------------------------------------------------------------

    def _place(self, operand: str) -> str:
        """An address."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(f"{self.kernel.name}: no address: {operand}")
        base, offset = found[1], int(found[2] or 0)
        if base[0] == "%" and self.kernel.register_type(base) == "b32":
            text = f"{self.read(base, 'u32')}.astype(np.uint64)"
        else:
            text = self.read(base, "u64")
        return f"{text} + T['s64']({offset}).view(T['u64'])" if offset else text

    def _locate(self, item: Instruction, operand: str, count: int, use: str) -> str:
        space = next((m.split("_")[0] for m in item.modifiers if m.split("_")[0] in _SPACES),
                     "generic")
        if space == "const":
            raise self._unknown(item)
        size = SIZES[item.modifiers[-1]]
        return f"S.locate({space!r}, {self._place(operand)}, ({size}, {count}, {use!r}), ix)"

    def _load(self, item: Instruction) -> None:
        kind, targets = item.modifiers[-1], _elements(item.operands[0])
        if "param" in item.modifiers:
            found = _ADDRESS.fullmatch(item.operands[1])
            if found is None or found[2] or len(targets) > 1:
                raise self._unknown(item)
            argument = f"S.arguments[{found[1]!r}].astype(U[{SIZES[kind]}])"
            self.assign(targets[0], f"{argument}.view(T[{kind!r}])", kind)
            return
        self.lines.append(f"m, k = {self._locate(item, item.operands[1], len(targets), 'load')}")
        for number, target in enumerate(targets):
            self.assign(target, f"m[k + {number}].view(T[{kind!r}])", kind)

    def _store(self, item: Instruction) -> None:
        values, size = _elements(item.operands[1]), SIZES[item.modifiers[-1]]
        self.lines.append(f"m, k = {self._locate(item, item.operands[0], len(values), 'store')}")
        for number, value in enumerate(values):
            text = (f"{self.read(value, f'f{8 * size}')}.view(U[{size}])"
                    if value[:2].lower() in ("0f", "0d") else self.read(value, f"b{8 * size}"))
            self.lines.append(f"S.put(m, k + {number}, {text})")

    def _atomic(self, item: Instruction) -> None:
        wanted = item.opcode == "atom"
        kind, operands = item.modifiers[-1], item.operands[1:] if wanted else item.operands
        operation = next((m for m in item.modifiers if m in (
            "add", "min", "max", "and", "or", "xor", "exch", "cas", "inc")), None)
        if operation is None:
            raise self._unknown(item)
        values = ", ".join(self.read(o, kind) for o in operands[1:])
        place = self._locate(item, operands[0], 1, "atomic")
        if wanted and item.operands[0] != "_":
            self.assign(item.operands[0],
                        f"S.atomic({operation!r}, {place}, ({values},), n, T[{kind!r}])", kind)
        elif operation in ("exch", "cas", "inc"):
            self.lines.append(f"S.atomic({operation!r}, {place}, ({values},), n, T[{kind!r}])")
        else:
            self.lines.append(f"S.reduce({operation!r}, {place}, {values}, n, T[{kind!r}])")

    # -- warps ------------------------------------------------------------------------------

    def _shuffle(self, item: Instruction) -> None:
        target, _, inside = item.operands[0].partition("|")
        value, amount, control, mask = (self.read(o, "b32") for o in item.operands[1:])
        self.lines.append(f"S.warps.check({mask}, ix)")
        self.lines.append(f"found, inside = S.warps.shuffle({item.modifiers[1]!r}, {value}, "
                          f"{amount}, {control}, ix)")
        self.assign(target, "found", "b32")
        if inside:
            self.assign(inside, "inside", "pred")

    def _vote(self, item: Instruction) -> None:
        value, mask = self.read(item.operands[1], "pred"), self.read(item.operands[2], "b32")
        self.lines.append(f"S.warps.check({mask}, ix)")
        self.assign(item.operands[0], f"S.warps.vote({item.modifiers[1]!r}, {value}, ix)",
                    item.modifiers[-1])

    def _active(self, item: Instruction) -> None:
        self.assign(item.operands[0], "S.warps.vote('ballot', np.bool_(True), ix)", "b32")

    def _matrix(self, item: Instruction) -> None:
        shape, kind = item.modifiers[2], item.modifiers[-2]
        if item.modifiers[-1] != "f32" or shape not in ("m16n8k16", "m16n8k8", "m16n8k4"):
            raise self._unknown(item)
        a, b = ([self.read(r, "b32") for r in _elements(o)] for o in item.operands[1:3])
        c = [self.read(r, "f32") for r in _elements(item.operands[3])]
        self.lines.append(f"product = S.warps.multiply({shape!r}, {kind!r}, [{', '.join(a)}], "
                          f"[{', '.join(b)}], [{', '.join(c)}], ix)")
        for k, target in enumerate(_elements(item.operands[0])):
            self.assign(target, f"product[{k}]", "f32")


def _variable(register: str) -> str:
    return "v_" + register[1:].replace("$", "_")


def _elements(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]
