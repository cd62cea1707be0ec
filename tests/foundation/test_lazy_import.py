"""Late imports load when used, not before, and say what is missing."""

import sys

import pytest

from core.foundation.lazy_import import lazy_import, lazy_names, load


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "late_sample.py").write_text("value = 3\nother = 4\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "late_sample"
    sys.modules.pop("late_sample", None)


def test_nothing_loads_before_the_first_attribute(module):
    late = lazy_import(module)
    assert module not in sys.modules
    assert "not loaded" in repr(late)
    assert late.value == 3
    assert module in sys.modules


def test_missing_package_names_who_needs_it():
    late = lazy_import("no_such_package_here", needed_for="core-plugin-foo")
    with pytest.raises(ModuleNotFoundError, match="core-plugin-foo needs .*pip install no_such"):
        _ = late.anything


def test_missing_attribute_is_an_attribute_error(module):
    with pytest.raises(AttributeError):
        _ = lazy_import(module).nothing


def test_load(module):
    assert load(f"{module}:other") == 4
    assert load(module).value == 3
    with pytest.raises(ImportError, match="has no name 'gone'"):
        load(f"{module}:gone")


def test_lazy_names(module):
    package = sys.modules[__name__]
    get, names = lazy_names(__name__, {"late_value": f"{module}:value"})
    assert "late_value" in names()
    assert get("late_value") == 3
    assert package.late_value == 3
    with pytest.raises(AttributeError, match="has no attribute 'x'"):
        get("x")
