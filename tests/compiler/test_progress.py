"""The line that is shown while compiling takes long."""

import io
import sys

import pytest

from core import Context
from core.compiler.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(terminal, monkeypatch, after_seconds=0.0):
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("SLOW", 45, after_seconds) as line:
        line.show(12)
        line.show(13)
    return terminal.getvalue()


def test_a_long_compilation_says_how_far_it_is_and_leaves_no_trace(monkeypatch):
    text = shown(Terminal(), monkeypatch)
    assert "compiling for SLOW: 12 of 45 kernels" in text
    assert text.endswith("13 of 45 kernels\r\x1b[K")


def test_a_short_one_says_nothing(monkeypatch):
    assert shown(Terminal(), monkeypatch, after_seconds=1e9) == ""


def test_what_is_no_terminal_is_told_nothing(monkeypatch):
    assert shown(io.StringIO(), monkeypatch) == ""


@pytest.mark.parametrize("setting", [{"PROGRESS": False}, {"DEBUG": 1}])
def test_settings_silence_it(monkeypatch, setting):
    with Context(**setting):
        assert shown(Terminal(), monkeypatch) == ""
