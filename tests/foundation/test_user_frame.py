"""Warnings point at the user's line and become errors under STRICT."""

import warnings

import pytest

from core import Context
from core.foundation.errors import CoreWarning
from core.foundation.user_frame import user_frame, warn


def test_user_frame_is_the_caller_outside_of_core():
    file, line = user_frame()
    assert file == __file__
    assert line > 0


def test_warning_points_here():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("odd", "do this")
    assert (caught[0].filename, str(caught[0].message)) == (__file__, "odd (do this)")


def test_strict_raises():
    with Context(STRICT=True), pytest.raises(CoreWarning, match="odd"):
        warn("odd")
