"""Normalization, dropout, attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import as_axis, show
from core.frontend.operations.random import RandomOperations
from core.ir import Op, dtypes


class NormalizationOperations(RandomOperations):
    """Normalization, dropout, attention. `Tensor.training` tells dropout and batchnorm apart."""

    __slots__ = ()
    training: ClassVar[bool] = False

    @classmethod
    @contextmanager
    def train(cls, mode: bool = True) -> Iterator[None]:
        """`with Tensor.train():` turns training on inside."""
        before = NormalizationOperations.training
        NormalizationOperations.training = mode
        try:
            yield
        finally:
            NormalizationOperations.training = before

    def layernorm(self, axis: Any = -1, eps: float = 1e-5) -> Self:
        """(x - mean) / sqrt(variance + eps) along axes."""
        wide, result = self._working()
        distance = wide.sub(wide.mean(axis, keepdim=True))
        variance = distance.mul(distance).mean(axis, keepdim=True)
        return distance.div(variance.add(eps).sqrt()).cast(result)

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: Any = 1
    ) -> Self:
        """(x - mean) * invstd * weight + bias, each a vector along `axis`."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        places = {as_axis(a, self.shape) for a in axes}
        shape = [n if a in places else 1 for a, n in enumerate(self.shape)]
        wide, result = self._working()
        value = wide.sub(mean.reshape(shape))
        value = value.mul(invstd.reshape(shape) if invstd.ndim == len(axes) else invstd)
        if weight is not None:
            value = value.mul(weight.reshape(shape))
        return (value if bias is None else value.add(bias.reshape(shape))).cast(result)

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """x over its norm along an axis, at least eps."""
        wide, result = self._working()
        if p == 2:
            norm = wide.mul(wide).sum(dim, keepdim=True).sqrt()
        else:
            norm = wide.abs().pow(p).sum(dim, keepdim=True).pow(1 / p)
        return wide.div(norm.maximum(eps)).cast(result)

    def dropout(self, p: float = 0.5) -> Self:
        """In training each element is 0 with probability p, else divided by 1 - p.

        Raises:
            ValueError: p is not in [0, 1].
        """
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability {p} is not in [0, 1]")
        if not NormalizationOperations.training or p == 0:
            return self._renamed()
        x = self._float()
        if p == 1:
            return x.mul(0.0)
        keeps = type(self).rand(self.shape, dtype=dtypes.float32, device=self._place())
        kept = keeps._binary(Op.CMPLT, p)
        return kept.where(0.0, x.div(1 - p))

    def scaled_dot_product_attention(
        self, key: Self, value: Self, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Self:
        """softmax(q kᵀ / sqrt(d) + mask) v; a query that may see no key gives 0.

        Args:
            key: (..., keys, d).
            value: (..., keys, e).
            attn_mask: bool (True: may see) or numbers that are added.
            dropout_p: Probability of dropout in training.
            is_causal: Query i sees keys up to i.
            scale: Instead of 1 / sqrt(d).
            enable_gqa: Heads of key and value are repeated to those of the query.

        Raises:
            ShapeError: Shapes do not fit, or both a mask and is_causal are given.
        """
        if self.ndim < 2 or key.ndim < 2 or value.ndim < 2:
            raise ShapeError(f"attention of {show(self.shape)}, {show(key.shape)} and "
                             f"{show(value.shape)}: each needs two axes")
        if enable_gqa:
            key = key.repeat_interleave(self.shape[-3] // key.shape[-3], -3)
            value = value.repeat_interleave(self.shape[-3] // value.shape[-3], -3)
        wide, result = self._working()
        factor = 1 / math.sqrt(self.shape[-1]) if scale is None else scale
        scores = wide.matmul(key.transpose(-2, -1)).mul(factor)
        mask = attn_mask
        if is_causal:
            if mask is not None:
                raise ShapeError("attention: give a mask or is_causal, not both")
            mask = type(self).ones(*scores.shape[-2:], dtype=dtypes.bool).tril()
        if mask is not None:
            seen = self._tensor(mask)
            if seen.dtype is dtypes.bool:
                scores = seen.where(scores, -math.inf)
            else:
                scores = scores.add(seen)
        weights = scores._attention_weights(may_be_empty=mask is not None)
        return weights.dropout(dropout_p).matmul(value).cast(result)

    def _attention_weights(self, may_be_empty: bool) -> Self:
        """Softmax of rows; of a row without a key 0."""
        if not may_be_empty:
            return self.softmax(-1)
        largest = self._largest(-1)
        largest = largest._binary(Op.CMPEQ, -math.inf).where(0.0, largest)
        e = self.sub(largest).exp()
        total = e.sum(-1, keepdim=True)
        return e.div(total._binary(Op.CMPEQ, 0.0).where(1.0, total))


