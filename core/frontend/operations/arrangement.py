"""Less common ways to arrange, resample and combine elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import (
    along,
    as_axis,
    as_size,
    back_from_front,
    broadcast,
    elementwise,
    front,
    show,
)
from core.frontend.iota import tabulate
from core.frontend.operations.arithmetic import mirrored
from core.frontend.operations.sorting import SortingOperations
from core.frontend.scattering import reduced_along
from core.frontend.windows import Relation, forward
from core.ir import Op, UOp, dtypes

_COMBINED = {"sum": Op.ADD, "mean": Op.ADD, "prod": Op.MUL, "amax": Op.MAX, "amin": Op.MAX}


class ArrangementOperations(SortingOperations):
    """Grids, diagonals, windows, resampling, scatters that combine."""

    __slots__ = ()

    def meshgrid(self, *others: Any, indexing: str = "ij") -> tuple[Self, ...]:
        """Vectors as coordinates of a grid: "ij" matrix order, "xy" the first two swapped."""
        if indexing not in ("ij", "xy"):
            raise ValueError(f"indexing is 'ij' or 'xy', not {indexing!r}")
        given = [self, *map(self._tensor, others)]
        if any(t.ndim > 1 for t in given):
            raise ShapeError("meshgrid takes vectors")
        vectors = [t.reshape(-1) for t in given]
        places = list(range(len(vectors)))
        if indexing == "xy" and len(vectors) > 1:
            places[:2] = [1, 0]
        sizes = [0] * len(vectors)
        for vector, place in zip(vectors, places, strict=True):
            sizes[place] = vector.shape[0]
        return tuple(
            self._of(broadcast(along(v.uop, place, len(sizes)), tuple(sizes)))
            for v, place in zip(vectors, places, strict=True))

    def diag(self) -> Self:
        """A matrix with this vector on its diagonal; of a matrix its diagonal."""
        if self.ndim == 2:
            return self.diagonal()
        if self.ndim != 1:
            raise ShapeError(f"diag of a tensor of shape {show(self.shape)}: it takes a vector")
        size = self.shape[0]
        on_it = tabulate(lambda r, c: r.eq(c), size, size)
        return self._of(elementwise(Op.WHERE, on_it, broadcast(self.uop, (size, size)),
                                    self.uop.const_like(0)))

    def pad_to(self, *shape: Any) -> Self:
        """Zeros after the end of each axis up to a size; None keeps an axis.

        Raises:
            ShapeError: A size is smaller than the axis.
        """
        sizes = self._sizes("pad_to", shape)
        if any(s < n for s, n in zip(sizes, self.shape, strict=True)):
            raise ShapeError(f"pad_to {tuple(sizes)}: the shape {show(self.shape)} is larger")
        return self.pad([(0, s - n) for s, n in zip(sizes, self.shape, strict=True)])

    def shrink_to(self, *shape: Any) -> Self:
        """The first elements of each axis; None keeps an axis.

        Raises:
            ShapeError: A size is larger than the axis.
        """
        return self.shrink([(0, s) for s in self._sizes("shrink_to", shape)])

    def _sizes(self, name: str, shape: tuple[Any, ...]) -> list[int]:
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if len(given) != self.ndim:
            raise ShapeError(f"{name} takes a size per axis of {show(self.shape)}, got {given}")
        return [n if s is None else as_size(s) for s, n in zip(given, self.shape, strict=True)]

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """Windows of an axis, in a new last axis.

        Raises:
            ShapeError: The axis is shorter than a window, or the step is below 1.
        """
        at = as_axis(dim, self.shape)
        extent = self.shape[at] if self.shape else 1
        if not 0 < size <= extent or step < 1:
            raise ShapeError(f"unfold: windows of {size} in steps of {step} of an axis of "
                             f"{extent}")
        relation = Relation(step, 1, 0, (extent - size) // step + 1, size, extent)
        seen = forward(front(self.uop.reshape(self.shape or (1,)), [at]), relation)
        rank = len(seen.shape)
        rest = list(range(2, rank))
        return self._of(seen.permute([*rest[:at], 0, *rest[at:], 1]))

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Axes regrouped by name, such as "b (h w) c -> b h w c" with h=3; as einops does.

        Raises:
            ShapeError: The formula does not fit the shape.
        """
        left, arrow, right = formula.partition("->")
        before, after = _groups(left, self.ndim), _groups(right, self.ndim)
        names = [n for g in before for n in g]
        wanted = [n for g in after for n in g]
        if not arrow or len(set(names)) != len(names) or sorted(names) != sorted(wanted) \
                or len(before) != self.ndim:
            raise ShapeError(f"rearrange {formula!r} does not fit {show(self.shape)}: both sides "
                             "name each axis once")
        known = dict(sizes)
        for group, extent in zip(before, self.shape, strict=True):
            unknown = [n for n in group if n not in known]
            rest = prod(known[n] for n in group if n in known)
            if len(unknown) > 1 or (unknown and (rest == 0 or extent % rest)) \
                    or (not unknown and rest != extent):
                raise ShapeError(f"rearrange {formula!r}: an axis of {extent} is not "
                                 f"{' x '.join(f'{n}={known.get(n)}' for n in group) or 1}")
            known.update(dict.fromkeys(unknown, extent // rest))
        split = self.uop.reshape([known[n] for n in names])
        moved = split.permute([names.index(n) for n in wanted])
        return self._of(moved.reshape([prod(known[n] for n in g) for g in after]))

    def interpolate(
        self, size: Sequence[int], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """Trailing axes resampled to `size`.

        Args:
            size: New extents.
            mode: "linear" along each axis, "nearest", or "nearest-exact".
            align_corners: First and last elements stay where they are ("linear").

        Raises:
            ShapeError: Sizes below 1, or more of them than axes.
        """
        if mode not in ("linear", "nearest", "nearest-exact"):
            raise ValueError(f"mode is 'linear', 'nearest' or 'nearest-exact', not {mode!r}")
        sizes = [as_size(s) for s in size]
        lead = self.ndim - len(sizes)
        if lead < 0 or 0 in sizes or 0 in self.shape[lead:]:
            raise ShapeError(f"interpolate {show(self.shape)} to {tuple(sizes)}")
        if mode != "linear":
            value = self.uop
            for a, new in enumerate(sizes, lead):
                value = _nearest(value, a, new, exact=mode == "nearest-exact")
            return self._of(value)
        wide, result = self._working()
        value = wide.uop
        for a, new in enumerate(sizes, lead):
            value = _linear(value, a, new, align_corners)
        return self._of(value.cast(result))

    def scatter_reduce(
        self, dim: int, index: Self, src: Self, reduce: str, include_self: bool = True
    ) -> Self:
        """Elements combined with those of `src` whose index names their place.

        Args:
            dim: Axis of the index.
            index: Places along the axis.
            src: Values, at least of the index's shape.
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: The element that is there takes part.

        Raises:
            ShapeError: The index does not fit this tensor or `src`.
        """
        if reduce not in _COMBINED:
            raise ValueError(f"reduce is one of {', '.join(_COMBINED)}, not {reduce!r}")
        at = self._check_along("scatter_reduce", dim, index)
        source = src.shrink([(0, n) for n in index.shape]).cast(self.dtype)
        covered: list[tuple[int, int] | None] = [
            None if a == at else (0, index.shape[a]) for a in range(self.ndim)]
        part = self.shrink(covered)
        flipped = mirrored if reduce == "amin" else _same
        found, count = reduced_along(part.shape, at, index.uop, flipped(source.uop),
                                     _COMBINED[reduce])
        own, named = flipped(part.uop), count > 0
        combined = elementwise(_COMBINED[reduce], own, found) if include_self else found
        if reduce == "mean":
            total = self._of(count + 1 if include_self else named.where(count, 1))
            floor = None if self.dtype.is_float else "floor"
            combined = self._of(combined).div(total, floor).cast(self.dtype).uop
        new = self._of(flipped(named.where(combined, own)))
        if new.shape == self.shape:
            return new
        room = [(0, n - m) for n, m in zip(self.shape, new.shape, strict=True)]
        inside = self._of(UOp.const(True, dtypes.bool).expand(new.shape)).pad(room, value=False)
        return inside.where(new.pad(room), self)

    def sequential(self, functions: Sequence[Callable[[Any], Any]]) -> Any:
        """The functions applied one after the other."""
        result: Any = self
        for function in functions:
            result = function(result)
        return result


def _same(x: UOp) -> UOp:
    return x


def _groups(text: str, rank: int) -> list[list[str]]:
    """Names of one side of a formula, grouped by brackets; "..." stands for what is left."""
    found = re.findall(r"\(([^()]*)\)|(\.\.\.|\w+)", text)
    groups = [[alone] if alone else inside.split() for inside, alone in found]
    groups = [[n for n in g if n != "1"] for g in groups]
    if ["..."] in groups:
        at = groups.index(["..."])
        groups[at:at + 1] = [[f"...{k}"] for k in range(rank - len(groups) + 1)]
    return groups


def _nearest(x: UOp, axis: int, new: int, exact: bool) -> UOp:
    old: int = x.shape[axis]
    if old == new:
        return x

    def place(o: UOp) -> UOp:
        return ((o * 2 + 1) * old // (2 * new)) if exact else o * old // new

    return back_from_front(front(x, [axis]).index(tabulate(place, new)), axis)


def _linear(x: UOp, axis: int, new: int, align_corners: bool) -> UOp:
    """Two neighbours by distance; places are fractions over one denominator, so they are exact."""
    old: int = x.shape[axis]
    rank = len(x.shape)
    if old == new:
        return x
    denominator = max(new - 1, 1) if align_corners else 2 * new

    def numerator(o: UOp) -> UOp:
        n = o * (old - 1) if align_corners else (o * 2 + 1) * old - new
        n = (n < 0).where(0, n)
        return (n < (old - 1) * denominator).where(n, (old - 1) * denominator)

    def upper(o: UOp) -> UOp:
        k = numerator(o) // denominator + 1
        return (k < old).where(k, old - 1)

    moved = front(x, [axis])
    low = moved.index(tabulate(lambda o: numerator(o) // denominator, new))
    high = moved.index(tabulate(upper, new))
    part = tabulate(lambda o: (numerator(o) % denominator).cast(x.dtype), new)
    weight = broadcast(along(part * (1.0 / denominator), 0, rank), low.shape)
    return back_from_front(low + (high - low) * weight, axis)
