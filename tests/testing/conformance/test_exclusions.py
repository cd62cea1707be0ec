"""conformance.toml: what a row says, where the file is found, and what is refused."""

import pytest

from core.foundation.errors import PluginError
from core.testing.conformance.exclusions import exclusion_file, read_exclusions

ROWS = """
[[excluded]]
id = "L2/*/float64"
kind = "unsupported"
reason = "no doubles"

[[excluded]]
id = ["L1/view/1-1", "L4/threads"]
kind = "differs"
reason = "one thread"
device = "other"
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "conformance.toml"
        file.write_text(text)
        return file

    return write


def test_rows_are_read_for_the_device_that_they_name(written):
    (row,) = read_exclusions(written(ROWS), "FOO")
    assert (row.kind, row.reason) == ("unsupported", "no doubles")
    assert row.matches("L2/elementwise/ADD/float64")
    assert not row.matches("L2/elementwise/ADD/float32")
    rows = read_exclusions(written(ROWS), "OTHER")
    assert [r.pattern for r in rows] == ["L2/*/float64", "L1/view/1-1", "L4/threads"]
    assert read_exclusions(None, "FOO") == []
    assert read_exclusions(written(""), "FOO") == []


@pytest.mark.parametrize(("text", "words"), [
    ("[[excluded", "cannot be read"),
    ("[[exclude]]\nid = 'x'", "nothing but"),
    ("excluded = 3", "nothing but"),
    ("[[excluded]]\nid = 'x'\nkind = 'differs'", "row 1: a row has id, kind, reason"),
    ("[[excluded]]\nid = 'x'\nkind = 'differs'\nreason = 'y'\nwhy = 'z'", "a row has"),
    ("[[excluded]]\nid = 'x'\nkind = 'slow'\nreason = 'y'", "kind is one of unsupported, differs"),
    ("[[excluded]]\nid = 'x'\nkind = 'differs'\nreason = ' '", "not empty"),
    ("[[excluded]]\nid = []\nkind = 'differs'\nreason = 'y'", "not empty"),
    ("[[excluded]]\nid = [3]\nkind = 'differs'\nreason = 'y'", "are texts"),
])
def test_what_cannot_be_meant_is_refused(written, text, words):
    file = written(text)
    with pytest.raises(PluginError, match=words) as caught:
        read_exclusions(file, "FOO")
    assert str(file) in str(caught.value)


def test_the_file_is_in_the_package_of_the_module_or_around_it(tmp_path, monkeypatch):
    inner = tmp_path / "excluding_package" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner / "device.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert exclusion_file("excluding_package.inner.device") is None
    outer = inner.parent / "conformance.toml"
    outer.write_text("")
    assert exclusion_file("excluding_package.inner.device") == outer
    (inner / "conformance.toml").write_text("")
    assert exclusion_file("excluding_package.inner.device") == inner / "conformance.toml"


def test_core_says_of_its_own_devices_what_they_do_not_do():
    file = exclusion_file("core.reference.hooks")
    assert file is not None
    assert read_exclusions(file, "REFERENCE") == []
