"""The table: all rows, and the names of Tensor that are in none."""

from __future__ import annotations

from typing import Final

from core.testing.operations import (
    arithmetic,
    contractions,
    creation,
    functions,
    movement,
    products,
    reductions,
    selection,
)
from core.testing.operations.row import Row, name_of

#: All rows, by their names.
ROWS: Final[dict[str, Row]] = {
    name_of(row): row
    for row in (*arithmetic.ROWS, *functions.ROWS, *movement.ROWS, *reductions.ROWS,
                *selection.ROWS, *products.ROWS, *contractions.ROWS,
                *creation.ROWS)
}

#: Public names of Tensor that compute no values from values alone, and why no row holds them.
NO_OPERATIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("device", "dtype", "shape", "ndim", "numel", "nbytes", "element_size", "size",
                     "is_floating_point"), "says what a tensor is"),
    **dict.fromkeys(("data", "item", "numpy", "tolist"), "reads values: every row does"),
    **dict.fromkeys(("grad", "requires_grad", "backward", "gradient", "uop"), "the graph itself"),
    **dict.fromkeys(("training", "train"), "a switch"),
    **dict.fromkeys(("to", "to_", "realize"), "where and when, not what"),
    **dict.fromkeys(("assign", "replace"), "changes what a name stands for"),
    **dict.fromkeys(("empty", "empty_like"), "its values are anyone's"),
    **dict.fromkeys(
        ("rand", "rand_like", "randn", "randn_like", "randint", "randperm", "uniform", "normal",
         "scaled_uniform", "glorot_uniform", "kaiming_uniform", "kaiming_normal", "multinomial",
         "dropout", "manual_seed"), "random: its distribution is tested"),
    **dict.fromkeys(("to_device", "from_dlpack"), "where, not what: tested as an interchange"),
    "mT": "a transposition: tested with the Array API",
    "sequential": "calls what it is given",
}
