"""Index tables of strided slices and windows, and the tables of their adjoints.

A relation ties a place i of one axis to a window o and a tap k of it: i = stride·o + dilation·k +
offset. Read forward it gathers windows; read backward it says which window, if any, has place i
at tap k. The adjoint of a gather by one table is a gather by the other, so that gradients of
convolution and pooling, and gradients of those, never scatter:

    FORWARD  x (N, …)    → x[i(o, k)]        (O, K, …)
    BACK     x (O, …)    → x[o(k, i)]        (K, N, …)
    UNFOLD   x (K, N, …) → x[k, i(o, k)]     (O, K, …)
    FOLD     x (O, K, …) → x[o(k, i), k]     (K, N, …)
"""

from __future__ import annotations

from typing import NamedTuple

from core.frontend.iota import tabulate
from core.ir import AddressSpace, Op, UOp


class Relation(NamedTuple):
    """i = stride · o + dilation · k + offset for 0 <= i < size, 0 <= o < windows, 0 <= k < taps."""

    stride: int
    dilation: int
    offset: int
    windows: int
    taps: int
    size: int

    @property
    def stays_inside(self) -> bool:
        """Whether every window lies in the axis."""
        last = (self.stride * (self.windows - 1) + self.dilation * (self.taps - 1) + self.offset)
        return self.offset >= 0 and last < self.size


def place_table(relation: Relation) -> UOp:
    """i(o, k), Invalid outside of the axis."""
    stride, dilation, offset, windows, taps, size = relation

    def place(o: UOp, k: UOp) -> UOp:
        i = o * stride + k * dilation + offset
        return i if relation.stays_inside else i.valid((i >= 0) & (i < size))

    return tabulate(place, windows, taps)


def window_table(relation: Relation) -> UOp:
    """o(k, i), Invalid where no window has place i at tap k."""
    stride, dilation, offset, windows, taps, size = relation

    def window(k: UOp, i: UOp) -> UOp:
        distance = i - k * dilation - offset
        o = distance // stride
        gate = (o >= 0) & (o < windows)
        return o.valid(gate if stride == 1 else gate & (distance % stride).eq(0))

    return tabulate(window, taps, size)


def forward(x: UOp, relation: Relation) -> UOp:
    """(N, …) → (O, K, …): the windows of the first axis; side by side they are a reshape."""
    if relation.stays_inside and relation.dilation == 1 and relation.stride == relation.taps:
        first, count = relation.offset, relation.windows * relation.taps
        rest = x.shape[1:]
        inside = x.shrink((first, *(0 for _ in rest)), (count, *rest))
        return inside.reshape((relation.windows, relation.taps, *rest))
    return x.index(place_table(relation))


def back(x: UOp, relation: Relation) -> UOp:
    """(O, …) → (K, N, …): the window value that each place has at each tap, else Invalid."""
    return x.index(window_table(relation))


def unfold(x: UOp, relation: Relation) -> UOp:
    """(K, N, …) → (O, K, …)."""
    taps = tabulate(lambda o, k: k, relation.windows, relation.taps)
    return x.index(taps, place_table(relation))


def fold(x: UOp, relation: Relation) -> UOp:
    """(O, K, …) → (K, N, …)."""
    taps = tabulate(lambda k, i: k, relation.taps, relation.size)
    return x.index(window_table(relation), taps)


def _sum_of_valid(x: UOp, axis: int, table: UOp) -> UOp:
    """Sum over the taps; REDUCE skips what is Invalid, a single tap is made 0 there."""
    if x.shape[axis] == 1:
        x = _zeros_for_invalid(x, table)
        return x.reshape(x.shape[:axis] + x.shape[axis + 1:])
    order = (axis, *(a for a in range(len(x.shape)) if a != axis))
    return x.permute(order).reduce(Op.ADD, axes=1)


def window_gradient(g: UOp, node: UOp) -> UOp | None:
    """Gradient of an INDEX by one of the tables; None if it is none of the four forms."""
    x, tables = node.src[0], node.src[1:]
    if len(tables) == 1:
        relation = _read_places(tables[0], x.shape[0])
        if relation is not None:
            return _sum_of_valid(fold(g, relation), 0, window_table(relation))
        relation = _read_windows(tables[0], x.shape[0])
        if relation is not None:
            return _sum_of_valid(unfold(g, relation), 1, place_table(relation))
    if len(tables) == 2:
        relation = _read_places(tables[1], x.shape[1])
        if relation is not None and _is_tap(tables[0], 1):
            return _zeros_for_invalid(fold(g, relation), window_table(relation))
        relation = _read_windows(tables[0], x.shape[0])
        if relation is not None and _is_tap(tables[1], 0):
            return _zeros_for_invalid(unfold(g, relation), place_table(relation))
    return None


def _zeros_for_invalid(x: UOp, table: UOp) -> UOp:
    """0 where a table is Invalid."""
    if table.src[0].op is not Op.WHERE:
        return x
    gate = table.src[0].src[0].stage(*table.src[1:])
    extra = len(x.shape) - 2
    wide = gate.expand(x.shape[2:]).permute((extra, extra + 1, *range(extra)))
    return wide.where(x, 0)


def zeros_outside(x: UOp, relation: Relation) -> UOp:
    """The result of `back` with 0 where no window is."""
    return _zeros_for_invalid(x, window_table(relation))


def _is_tap(table: UOp, number: int) -> bool:
    return (table.op is Op.STAGE and len(table.src) == 3 and table.src[0] is table.src[1 + number])


def _tabulated(table: UOp) -> UOp | None:
    """The expression of a table over two ranges, without its gate."""
    if table.op is not Op.STAGE or table.arg is not AddressSpace.ALU or len(table.src) != 3:
        return None
    value = table.src[0]
    return value.src[1] if value.op is Op.WHERE and value.src[2].is_invalid else value


def _constants(*nodes: UOp) -> list[int] | None:
    return [n.value for n in nodes] if all(n.op is Op.CONST for n in nodes) else None


def _read_places(table: UOp, size: int) -> Relation | None:
    """The relation of a `place_table`: read from where its numbers stand, then checked whole."""
    i = _tabulated(table)
    if i is None or i.op is not Op.ADD or i.src[0].op is not Op.ADD:
        return None
    left, right = i.src[0].src
    if left.op is not Op.MUL or right.op is not Op.MUL:
        return None
    numbers = _constants(left.src[1], right.src[1], i.src[1])
    if numbers is None:
        return None
    stride, dilation, offset = numbers
    windows, taps = table.shape
    relation = Relation(stride, dilation, offset, windows, taps, size)
    return relation if place_table(relation) is table else None


def _read_windows(table: UOp, windows: int) -> Relation | None:
    """The relation of a `window_table`."""
    o = _tabulated(table)
    if o is None or o.op is not Op.FLOORDIV or o.src[0].op is not Op.SUB:
        return None
    distance = o.src[0]
    if distance.src[0].op is not Op.SUB or distance.src[0].src[1].op is not Op.MUL:
        return None
    numbers = _constants(o.src[1], distance.src[0].src[1].src[1], distance.src[1])
    if numbers is None:
        return None
    stride, dilation, offset = numbers
    taps, size = table.shape
    relation = Relation(stride, dilation, offset, windows, taps, size)
    return relation if window_table(relation) is table else None
