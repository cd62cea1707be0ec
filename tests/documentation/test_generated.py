"""Generated blocks of docs/: what stands there is what the code says today."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.compiler.pipeline import all_passes
from core.foundation.settings import SETTINGS
from core.ir.operation import OPERATIONS, Op
from core.tools import generate_docs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = generate_docs.pages(DOCS)
STALE = "stale: run python -m core.tools.generate_docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_fresh(page):
    text = page.read_text(encoding="utf-8")
    assert generate_docs.fill(text) == text, STALE


def test_all_blocks_are_used():
    names = {name for page in PAGES
             for name in re.findall(r"<!-- generated: ([\w -]+) -->", page.read_text())}
    assert set(generate_docs.BLOCKS) <= names
    assert {"specification.md", "passes.md", "settings.md", "tour.md"} <= {p.name for p in PAGES}


def test_every_operation_has_a_row_and_is_in_the_page():
    assert set(OPERATIONS) == set(Op)
    page = (DOCS / "specification.md").read_text()
    assert not [op.name for op in Op if f"| {op.name} |" not in page]


def test_every_pass_and_setting_is_in_its_page():
    passes, settings = (DOCS / "passes.md").read_text(), (DOCS / "settings.md").read_text()
    assert not [step.name for step in all_passes() if f"| {step.name} |" not in passes]
    assert not [name for name in SETTINGS if f"| `{name}` |" not in settings]


def test_check_finds_a_stale_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: passes -->\nnothing\n<!-- end -->\nafter\n")
    run = CliRunner().invoke
    assert run(generate_docs.main, ["--check", "--folder", str(tmp_path)]).exit_code == 1
    assert "nothing" in page.read_text()
    assert run(generate_docs.main, ["--folder", str(tmp_path)]).exit_code == 0
    assert run(generate_docs.main, ["--check", "--folder", str(tmp_path)]).exit_code == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "linearize" in text


def test_unknown_block_is_an_error():
    with pytest.raises(KeyError, match="no such"):
        generate_docs.fill("<!-- generated: no such -->\n<!-- end -->")


def test_assembly_of_another_version_stays(monkeypatch):
    monkeypatch.setattr(generate_docs.tour, "llvm_version", lambda: "LLVM 99")
    page = "<!-- generated: assembly -->\n```asm\n# LLVM 7, old\n```\n<!-- end -->"
    assert generate_docs.fill(page) == page
