"""README and the other pages: their commands, links and programs are real."""

import itertools
import re
import subprocess
import sys
import tomllib
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


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index.md" and f"]({page})" not in index] == []


def test_decisions_have_numbers_of_their_own_and_say_context_choice_and_cost():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]  # in ranges, for those who work side by side
    assert numbers[0] == 1
    assert numbers == sorted(set(numbers))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]}"), page.name
        assert all(f"**{part}.**" in text for part in ("Context", "Choice", "Cost")), page.name


def test_every_dependency_has_its_reason():
    text = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8")
    files = [ROOT / "pyproject.toml", *sorted((ROOT / "plugins").glob("*/pyproject.toml"))]
    for file in files:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
        extras = project["project"].get("optional-dependencies", {}).values()
        wanted = [*project["project"]["dependencies"], *itertools.chain(*extras),
                  *project["build-system"]["requires"]]
        for requirement in wanted:
            name = re.match(r"[\w.-]+", requirement)[0]
            assert name.startswith("core") or f"`{name}`" in text, requirement


def test_changelog_names_this_version():
    assert f"## {core.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readmes_program_learns():
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.1
