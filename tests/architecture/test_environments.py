"""tox.ini has an environment for each device of this repository, and `all` installs every one."""

import configparser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(folder.name for folder in (ROOT / "plugins").iterdir()
                 if (folder / "pyproject.toml").is_file())


@pytest.fixture(scope="module")
def settings():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    return parser


def installed_by(settings, environment):
    """Folders that an environment installs before its commands."""
    lines = settings["testenv"]["commands_pre"].splitlines()
    return " ".join(line for line in lines if line.startswith(f"{environment}:")).split()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_plugin_has_an_environment_of_its_own(settings, plugin):
    assert plugin in settings["tox"]["env_list"].replace(",", " ").split()
    assert f"{{toxinidir}}/plugins/{plugin}" in installed_by(settings, plugin)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_plugin_takes_part_in_the_checks_of_the_source(settings, plugin):
    assert f"{{toxinidir}}/plugins/{plugin}" in settings["testenv:layering"]["set_env"]
    assert f"core-plugin-{plugin} = {{ workspace = true }}" in (
        ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_all_installs_every_plugin(settings, plugin):
    assert f"{{toxinidir}}/plugins/{plugin}" in installed_by(settings, "all")


def test_the_matrix_is_whole(settings):
    names = settings["tox"]["env_list"].replace(",", " ").split()
    assert {"lint", "types", "layering", "docs", "none", "all", "broken", "editable"} <= set(names)
