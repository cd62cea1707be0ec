"""The programs by which threads of the host replay a list of kernel calls, written in UOps.

`worker` runs on each helping thread until it is told to stop; `replay` runs on the caller. Both
walk the same table, one row per call:

    row: function, arguments, items, share, meet, taken        (core.plugin.replay_table)

A row with a share of 0 is run by the caller alone, as a whole. Otherwise whoever is free takes the
next `share` items. `meet` lets all threads wait for each other before the row; they meet once more
behind the last row. A worker that found nothing to do for a while sleeps in the kernel (futex,
Linux), so an idle process uses no processor. The protocol and its constants: algorithms 4.6 and
cpu-recipes 6 of the design, measured there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from core.ir import AddressSpace, AxisType, BufferSlot, LoopRange, Op, ParamSlot, UOp, dtypes
from core.plugin.replay_table import (
    ARGUMENTS,
    BASE,
    CONTROL_WORDS,
    FUNCTION,
    GENERATION,
    ITEMS,
    MEET,
    MET,
    ROW_WORDS,
    ROWS,
    SCALARS,
    SHARE,
    SLEEPING,
    STOP,
    TABLE_ROWS,
    TAKEN,
    THREADS,
)

_WAIT, _WAKE, _EVERYONE = 128, 129, 1 << 30  # FUTEX_WAIT and FUTEX_WAKE, both private
_LOOKS_BEFORE_YIELDING: Final = 2048
_CALLER: Final = 0


class _Listing:
    """Items of a program in the order in which they are written down.

    Equal nodes are one node, so a place in storage is named *after* the last effect: a second look
    at the same word is another node. What is computed in a block is forgotten where it closes.
    """

    def __init__(self) -> None:
        self.items: list[UOp] = []
        self._known: list[set[UOp]] = [set()]
        self._numbers = 0
        self._last: UOp | None = None
        self.control = self._parameter(0, (CONTROL_WORDS,))
        self.table = self._parameter(1, (TABLE_ROWS * ROW_WORDS,))
        self.given = {name: self._parameter(2 + k, None) for k, name in enumerate(SCALARS)}

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _parameter(self, slot: int, shape: tuple[int, ...] | None) -> UOp:
        space = AddressSpace.ALU if shape is None else AddressSpace.GLOBAL
        info = ParamSlot(slot, dtypes.int64, None, space)
        return self._append(UOp(Op.PARAM, (UOp.dims(shape or ()),), info))

    def _append(self, node: UOp) -> UOp:
        self.items.append(node)
        self._known[-1].add(node)
        return node

    def value(self, node: UOp | int) -> UOp:
        """A value, with what it is computed from, unless that stands in the list already."""
        if isinstance(node, int):
            return UOp.const(node, dtypes.int64)
        pending = [node]
        while pending:
            found = pending[-1]
            if found.op is Op.CONST or any(found in known for known in self._known):
                pending.pop()
                continue
            missing = [s for s in found.src if s.op is not Op.CONST
                       and not any(s in known for known in self._known)]
            if missing:
                pending.extend(missing)
            else:
                self._append(pending.pop())
        return node

    def _effect(self, node: UOp) -> UOp:
        self._last = self._append(node)
        return node

    def _place(self, storage: UOp, word: UOp | int) -> UOp:
        index = self.value(word)
        return self._append((storage if self._last is None else storage.after(self._last))
                            .index(index))

    def load(self, storage: UOp, word: UOp | int, *, ordered: bool = False) -> UOp:
        """A word of storage; if ordered, read before everything that follows."""
        place = self._place(storage, word)
        return self._append(UOp(Op.LOAD, (place,), True if ordered else None))

    def store(self, storage: UOp, word: UOp | int, value: UOp | int) -> None:
        """Write a word of storage."""
        value = self.value(value)
        self._effect(UOp(Op.STORE, (self._place(storage, word), value)))

    def add(self, storage: UOp, word: UOp | int, value: UOp | int) -> UOp:
        """Add to a word for all threads to see; gives what was there before."""
        value = self.value(value)
        return self._effect(UOp(Op.ATOMIC_ADD, (self._place(storage, word), value)))

    def call(self, function: UOp, *arguments: UOp | int) -> UOp:
        """Call the function at an address."""
        values = [self.value(a) for a in (function, *arguments)]
        # The last effect makes the node its own: the same call may stand twice.
        address = values[0] if self._last is None else values[0].after(self._last)
        return self._effect(UOp(Op.CALL, (address, *values[1:])))

    def word(self, first: UOp | int) -> UOp:
        """A private word that starts with a value."""
        info = BufferSlot(self._number(), dtypes.int64, None, AddressSpace.REG)
        storage = self._append(UOp(Op.BUFFER, (UOp.dims((1,)),), info))
        self.store(storage, 0, first)
        return storage

    @contextmanager
    def when(self, condition: UOp) -> Iterator[None]:
        """A block that runs if a condition holds."""
        gate = self.value(condition)
        opened = self._effect(UOp(Op.IF, (gate,) if self._last is None else (gate, self._last)))
        self._known.append(set())
        yield
        self._known.pop()
        self._effect(UOp(Op.ENDIF, (opened,)))

    @contextmanager
    def counting(self, bound: UOp, kind: AxisType = AxisType.LOOP) -> Iterator[UOp]:
        """A loop over 0, 1, ... below a bound."""
        bound = self.value(bound)
        loop = self._effect(UOp(Op.RANGE, (bound,), LoopRange(self._number(), kind)))
        self._known.append({loop})
        yield loop
        self._known.pop()
        self._effect(UOp(Op.END, (self._last or loop, loop)))

    def repeat(self, body: Callable[[], UOp]) -> None:
        """A loop that goes on while what its body gives is true."""
        loop = self._effect(UOp(Op.RANGE, (), LoopRange(self._number(), AxisType.LOOP)))
        self._known.append({loop})
        again = self.value(body())
        end = UOp(Op.END, (self._last or loop, loop, again))
        self._known.pop()
        self._effect(end)

    def pause(self, instruction: str) -> None:
        """Ease the processor's load while it waits; nothing without such an instruction."""
        if instruction:
            self._effect(UOp(Op.INS, () if self._last is None else (self._last,), instruction))


def _meet(w: _Listing, goal: UOp, threads: UOp, pause: str) -> None:
    """Wait until every thread has come here; `goal` counts arrivals since the beginning."""
    w.store(goal, 0, w.load(goal, 0) + threads)
    w.add(w.control, MET, 1)
    looks = w.word(0)

    def look() -> UOp:
        seen = w.load(looks, 0) + 1
        w.store(looks, 0, seen)
        with w.when((seen & (_LOOKS_BEFORE_YIELDING - 1)).eq(0)):
            w.call(w.given["sched_yield"])
        w.pause(pause)
        return w.load(w.control, MET, ordered=True) < w.load(goal, 0)

    w.repeat(look)


def _walk(w: _Listing, thread: UOp, threads: UOp, rows: UOp, base: UOp, pause: str) -> None:
    """Run the rows of the table as one of the threads."""
    goal = w.word(base)
    together = UOp.const(1, dtypes.int64) < threads
    with w.counting(rows) as row:
        word = [row * ROW_WORDS + k for k in range(ROW_WORDS)]
        with w.when(w.load(w.table, word[MEET]).ne(0) & together):
            _meet(w, goal, threads, pause)
        function, arguments = (w.load(w.table, word[k]) for k in (FUNCTION, ARGUMENTS))
        items, share = (w.load(w.table, word[k]) for k in (ITEMS, SHARE))
        alone = share.eq(0)
        with w.when(alone & thread.eq(_CALLER)):
            w.call(function, arguments, 0, items, thread)
        with w.when(alone.logical_not()):

            def take() -> UOp:
                first = w.add(w.table, word[TAKEN], share)
                some = first < items
                with w.when(some):
                    end = first + share
                    w.call(function, arguments, first, (items < end).where(items, end), thread)
                return some

            w.repeat(take)
    with w.when(together):
        _meet(w, goal, threads, pause)


def _futex(w: _Listing, operation: int, value: UOp | int) -> None:
    address = w.value(UOp(Op.GETADDR, (w.control,)).cast(dtypes.int64))
    w.call(w.given["syscall"], w.given["futex_number"], address, operation, value, 0, 0, 0)


def worker(pause: str = "") -> UOp:
    """LINEAR of the program of a helping thread; its THREAD item is the thread's number.

    Args:
        pause: An instruction that eases the processor's load while a thread waits.
    """
    w = _Listing()
    many = UOp.const(1 << 30, dtypes.int64)
    with w.counting(many, AxisType.THREAD) as thread:
        seen = w.word(0)

        def serve() -> UOp:
            looks = w.word(0)

            def look() -> UOp:
                old = w.load(seen, 0)
                same = w.value(w.load(w.control, GENERATION, ordered=True).eq(old))
                count = w.load(looks, 0) + 1
                w.store(looks, 0, count)
                with w.when(same & (w.given["patience"] < count)):
                    w.add(w.control, SLEEPING, 1)
                    _futex(w, _WAIT, old)
                    w.add(w.control, SLEEPING, -1)
                    w.store(looks, 0, 0)
                w.pause(pause)
                return same

            w.repeat(look)
            w.store(seen, 0, w.load(seen, 0) + 1)
            goes_on = w.load(w.control, STOP).eq(0)
            with w.when(goes_on):
                threads, rows, base = (w.load(w.control, k) for k in (THREADS, ROWS, BASE))
                _walk(w, thread, threads, rows, base, pause)
            return w.load(w.control, STOP).eq(0)

        w.repeat(serve)
    return UOp(Op.LINEAR, tuple(w.items))


def replay(pause: str = "") -> UOp:
    """LINEAR of the caller's program: wakes the workers and walks the table with them.

    Control words ROWS and THREADS say how many rows there are and how many threads walk; with one
    nobody is woken.
    """
    w = _Listing()
    threads, rows = (w.load(w.control, k) for k in (THREADS, ROWS))
    base = w.load(w.control, MET, ordered=True)
    with w.when(UOp.const(1, dtypes.int64) < threads):
        w.store(w.control, BASE, base)
        wake(w)
    _walk(w, UOp.const(_CALLER, dtypes.int64), threads, rows, base, pause)
    return UOp(Op.LINEAR, tuple(w.items))


def wake(w: _Listing) -> None:
    """Begin the next generation."""
    w.add(w.control, GENERATION, 1)
    with w.when(w.load(w.control, SLEEPING, ordered=True).ne(0)):
        _futex(w, _WAKE, _EVERYONE)


def stop() -> UOp:
    """LINEAR of the program that ends the workers."""
    w = _Listing()
    w.store(w.control, STOP, 1)
    wake(w)
    return UOp(Op.LINEAR, tuple(w.items))
