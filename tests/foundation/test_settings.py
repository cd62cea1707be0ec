"""Settings: where values come from, what is refused, and whom a Context reaches."""

import threading

import pytest

from core import Context
from core.foundation import settings as module
from core.foundation.errors import SettingError
from core.foundation.settings import SETTINGS, origin, parse, settings


@pytest.fixture
def environment(monkeypatch):
    """Set variables and read them; afterwards everything is as before."""

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        module.read_environment()

    yield set_variables
    monkeypatch.undo()
    module.read_environment()


def test_every_setting_is_an_attribute_with_its_default_type():
    for name, row in SETTINGS.items():
        assert type(getattr(settings, name)) is type(row.default), name
        assert row.text.endswith("."), f"{name} needs a sentence"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("DEBUG", "2", 2), ("SPEC", "on", True), ("SPEC", "0", False), ("DEV", " CUDA:1 ", "CUDA:1")],
)
def test_parse(name, text, value):
    assert parse(SETTINGS[name], text) == value
    assert type(parse(SETTINGS[name], text)) is type(SETTINGS[name].default)


@pytest.mark.parametrize(
    ("name", "text"),
    [("DEBUG", "much"), ("DEBUG", "-1"), ("SPEC", "2"), ("FLOAT", "float8"), ("INT", "int8")],
)
def test_a_value_that_cannot_be_is_refused_with_the_variable(name, text):
    with pytest.raises(SettingError, match=f"CORE_{name}"):
        parse(SETTINGS[name], text)


def test_environment_then_alias_then_default(environment):
    environment(DEV="cpu")
    assert (settings.DEV, origin("DEV")) == ("cpu", "DEV in the environment")
    environment(CORE_DEV="null", DEV="cpu")
    assert (settings.DEV, origin("DEV")) == ("null", "CORE_DEV in the environment")
    assert origin("FUEL") == "default"


def test_context_nests_and_restores_even_after_an_error():
    before = settings.DEBUG
    with Context(DEBUG=3):
        with Context(DEBUG=4, SEED=2):
            assert (settings.DEBUG, settings.SEED) == (4, 2)
        assert (settings.DEBUG, settings.SEED) == (3, 0)
        assert origin("DEBUG") == "Context(DEBUG=...)"
        with pytest.raises(ZeroDivisionError), Context(DEBUG=1):
            _ = 1 / 0
        assert settings.DEBUG == 3
    assert settings.DEBUG == before
    assert origin("DEBUG") != "Context(DEBUG=...)"


def test_context_as_decorator_and_reused():
    block = Context(SEED=5)

    @block
    def read(extra):
        """Read it."""
        return settings.SEED + extra

    assert read(1) == 6
    assert read.__name__ == "read"
    with block, block:
        assert settings.SEED == 5
    assert settings.SEED == 0


def test_context_does_not_reach_other_threads():
    seen = []
    with Context(SEED=7):
        thread = threading.Thread(target=lambda: seen.append(settings.SEED))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"DEBG": 1}, "did you mean DEBUG"),
        ({"DEBUG": "1"}, "must be of type int"),
        ({"DEVICES": "cpu"}, "read once"),
    ],
)
def test_context_refuses(values, words):
    with pytest.raises(SettingError, match=words):
        Context(**values)


def test_misspelt_variables_are_found(environment):
    environment(CORE_DEBG="1", CORE_OWNER_FOO="x", CORE_MY_PLUGIN_THING="y")
    unknown = module.unknown_variables()
    assert unknown["CORE_DEBG"] == "CORE_DEBUG"
    assert unknown["CORE_MY_PLUGIN_THING"] == ""
    assert "CORE_OWNER_FOO" not in unknown
