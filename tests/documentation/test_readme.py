"""README and the other pages: their commands, links and programs are real."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import core
from core.tools.command_line import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_continuous_integration_runs_the_readmes_test_command():
    pattern = re.search(r"grep -m 1 -E '(.+?)' README.md", (ROOT / ".ci/run").read_text())[1]
    found = [line for line in README.splitlines() if re.search(pattern, line)]
    assert len(found) == 1
    assert "./plugins/cpu" in found[0]
    assert "PYTHONSAFEPATH=1" in found[0]


def test_every_command_is_in_the_readme():
    for name in cli.commands:
        assert f"`core {name}" in README, name


def test_environments_that_the_readme_names_exist():
    text = (ROOT / "tox.ini").read_text()
    for names in re.findall(r"tox -e ([\w,]+)", README):
        for name in names.split(","):
            assert re.search(rf"\b{name}\b", text), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_changelog_names_this_version():
    assert f"## {core.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.skipif(importlib.util.find_spec("core.nn") is None, reason="core.nn is not built yet")
def test_the_readmes_program_learns():
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.1
