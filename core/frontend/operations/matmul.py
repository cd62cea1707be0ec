"""Products of matrices.

Operands are first converted to the accumulator's dtype (float16, bfloat16, fp8 → float32, small
integers → int32), so products are exact; the result is rounded once to the operands' dtype, small
integers stay int32.
"""

from __future__ import annotations

from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import broadcast, show
from core.frontend.conversion import accumulator, as_dtype, common, sum_result
from core.frontend.operations.reduction import ReductionOperations, reduced
from core.ir import DType, Op, UOp, broadcast_shapes


class MatmulOperations(ReductionOperations):
    """Matrix products and sums of products."""

    __slots__ = ()

    def matmul(self, other: Any, reflected: bool = False, dtype: Any = None) -> Self:
        """Matrix product over the last axis of one and the last but one of the other.

        Vectors and batches as in numpy.

        Raises:
            ShapeError: The inner extents differ, or an operand is a scalar.
        """
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        return self._of(matrix_product(a, b, None if dtype is None else as_dtype(dtype)))

    dot = matmul

    def linear(self, weight: Self, bias: Self | None = None, dtype: Any = None) -> Self:
        """x @ weight + bias; weight is (inputs, outputs), or (features,) to multiply by."""
        x = self.mul(weight) if weight.ndim == 1 else self.matmul(weight, dtype=dtype)
        return x if bias is None else x.add(bias)

    @classmethod
    def einsum(cls, formula: str, *operands: Any, dtype: Any = None) -> Self:
        """Sum of products by Einstein's convention, as numpy's einsum ("ij,jk->ik").

        A letter repeated in one operand takes its diagonal; "..." stands for the leading axes that
        broadcast.

        Raises:
            ShapeError: The formula does not fit the operands.
        """
        items = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) \
            else operands
        tensors = [t if isinstance(t, cls) else cls(t) for t in items]
        target = common(*(t.dtype for t in tensors))
        result = sum_result(target) if dtype is None else as_dtype(dtype)
        value = _einsum(formula, [t.uop.cast(accumulator(target)) for t in tensors])
        return cls._of(value.cast(result))

    def outer(self, other: Any) -> Self:
        """Products of every element with every element of another vector."""
        return self.reshape(-1, 1).mul(self._tensor(other).reshape(1, -1))


def matrix_product(a: UOp, b: UOp, dtype: DType | None = None) -> UOp:
    """a @ b; see `MatmulOperations.matmul`."""
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul needs axes: the shapes are {show(a.shape)} and {show(b.shape)}")
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        raise ShapeError(f"matmul of {show(a.shape)} and {show(b.shape)}: the inner extents "
                         f"{left[-1]} and {right[-2]} differ")
    batch = broadcast_shapes(left[:-2], right[:-2])
    rank, (rows, inner), columns = len(batch), left[-2:], right[-1]
    wide = accumulator(a.dtype)
    x = broadcast(a.reshape(left), (*batch, rows, inner)).cast(wide)
    y = broadcast(b.reshape(right), (*batch, inner, columns)).cast(wide)
    # Both become (inner, batch, rows, columns).
    x = x.expand((columns,)).permute((rank + 2, *range(1, rank + 2), 0))
    y = y.expand((rows,)).permute((rank + 1, *range(1, rank + 1), 0, rank + 2))
    product = (x * y).reduce(Op.ADD, axes=1).cast(dtype or sum_result(a.dtype))
    shape = (*batch, *(() if len(a.shape) == 1 else (rows,)),
             *(() if len(b.shape) == 1 else (columns,)))
    return product.reshape(shape)


def _letters(formula: str, ranks: list[int]) -> tuple[list[str], str]:
    """Subscripts of the operands and of the result; "..." becomes capital-free digits."""
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum {formula!r} names {len(terms)} operands, {len(ranks)} are given")
    free = [chr(0x100 + k) for k in range(max([*ranks, 1]))]  # axes of "...", from the right
    used = 0
    for k, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        hidden = rank - len(term.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in term):
            raise ShapeError(f"einsum {formula!r}: {term!r} does not fit an operand of {rank} axes")
        used = max(used, hidden)
        terms[k] = term.replace("...", "".join(free[:hidden][::-1]))
    dots = "".join(free[:used][::-1])
    if arrow:
        result = right.replace("...", dots)
    else:
        counts = "".join(terms)
        result = dots + "".join(sorted(c for c in set(counts) - set(dots) if counts.count(c) == 1))
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        raise ShapeError(f"einsum {formula!r}: the result {right!r} names an axis twice, or one "
                         "that no operand has")
    return terms, result


def _diagonal(value: UOp, term: str) -> tuple[UOp, str]:
    """Take the diagonal of axes named twice."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            extent = value.shape[first]
            if value.shape[second] != extent:
                raise ShapeError(f"einsum: axes {letter!r} have extents {extent} and "
                                 f"{value.shape[second]}")
            order = [first, second, *(a for a in range(len(term)) if a not in (first, second))]
            place = UOp.range(extent, 0)
            table = place.stage(place)
            value = value.permute(order).index(table, table)
            term = letter + "".join(c for k, c in enumerate(term) if k not in (first, second))
    return value, term


def _einsum(formula: str, values: list[UOp]) -> UOp:
    terms, result = _letters(formula, [len(v.shape) for v in values])
    pairs = [_diagonal(v, t) for v, t in zip(values, terms, strict=True)]
    sizes: dict[str, int] = {}
    for value, term in pairs:
        for letter, extent in zip(term, value.shape, strict=True):
            if sizes.setdefault(letter, extent) == 1:
                sizes[letter] = extent
            if extent not in (1, sizes[letter]):
                raise ShapeError(f"einsum {formula!r}: an axis has extents {sizes[letter]} and "
                                 f"{extent}")
    total, names = pairs[0]
    for k, (value, term) in enumerate(pairs[1:], 1):
        later = set(result).union(*(t for _, t in pairs[k + 1:]))
        total, names = _contracted((total, names), (value, term), later, sizes)
    summed = [a for a, c in enumerate(names) if c not in result]
    total = reduced(total, Op.ADD, summed)
    names = "".join(c for c in names if c in result)
    return total.permute([names.index(c) for c in result])


def _contracted(
    left: tuple[UOp, str], right: tuple[UOp, str], later: set[str], sizes: dict[str, int]
) -> tuple[UOp, str]:
    """Product of two operands, summed over the letters that are not needed later."""
    names = "".join(dict.fromkeys(left[1] + right[1]))
    summed = [c for c in names if c not in later]
    order = [*summed, *(c for c in names if c in later)]
    shape = tuple(sizes[c] for c in order)
    operands = []
    for value, term in (left, right):
        present = [c for c in order if c in term]
        moved = value.permute([term.index(c) for c in present])
        moved = moved.reshape([moved.shape[present.index(c)] if c in term else 1 for c in order])
        operands.append(broadcast(moved, shape))
    product = operands[0] * operands[1]
    return product.reduce(Op.ADD, axes=len(summed)), "".join(order[len(summed):])



