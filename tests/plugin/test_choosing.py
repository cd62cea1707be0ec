"""The default device: explicit without a probe, implicit by priority and probe, last resort."""

import json

import pytest

from core import Context
from core.foundation.errors import CoreWarning, DeviceError
from core.plugin import probing
from core.plugin.probing import run_tasks, verdicts

PROBES = """
import os, time, signal
from core.plugin import Probe

def found():
    print("drivers print things")
    with open(__file__ + ".count", "a") as file:
        file.write("x")
    return Probe(2, "two cards")

def nothing(): return Probe(0, "no card")
def raises(): raise OSError("libfoo.so")
def crashes(): os.kill(os.getpid(), signal.SIGSEGV)
def catches(): signal.signal(signal.SIGSEGV, lambda *_: None); return Probe(1)
def leaves(): os._exit(7)
def hangs(): time.sleep(600)
def wrong(): return 3
def text(): return Probe("2")
def unspeakable(): return Probe(1, object())
"""


@pytest.fixture
def folder(plugin_folder):
    (plugin_folder.path / "sample_probes.py").write_text(PROBES)
    with Context(PROBE_SECONDS=60):  # a busy machine may take seconds to start the child
        yield plugin_folder


def add(folder, name, priority, probe=""):
    place = f"sample_probes:{probe}" if probe else ""
    folder.good(name, f'priority={priority}, probe="{place}"')


def test_highest_priority_with_hardware_wins(folder):
    add(folder, "NONE", 300, "nothing")
    add(folder, "CARD", 200, "found")
    add(folder, "HOST", 100)
    add(folder, "ASK", 0)
    registry = folder.registry()
    assert registry.default_name() == "CARD"
    assert "NONE: no card" in registry.default_choice().reason
    rows = {row.name: (row.status, row.reason) for row in registry.status()}
    assert rows["NONE"] == ("no hardware", "no card")
    assert rows["CARD"] == ("ready", "two cards")


def test_every_bad_probe_is_a_verdict_and_the_others_still_speak(folder):
    answers = run_tasks(
        [(kind, "probe", f"sample_probes:{kind}")
         for kind in ("raises", "catches", "crashes", "leaves", "wrong", "text", "gone",
                      "unspeakable", "found")]
    )
    reasons = {kind: answer["reason"] for kind, answer in answers.items()}
    assert answers["found"]["count"] == 2
    assert answers.pop("catches")["count"] == 1  # and hides no crash of others
    assert reasons["raises"] == "OSError: libfoo.so"
    assert reasons["crashes"] == "the probe crashed with SIGSEGV"
    assert reasons["leaves"] == "the probe ended its process with status 7"
    assert "not a Probe" in reasons["wrong"]
    assert "counts '2' devices" in reasons["text"]
    assert answers["unspeakable"]["reason"].startswith("<object")
    del answers["unspeakable"]
    assert "has no name 'gone'" in reasons["gone"]
    assert all(answer["fault"] for kind, answer in answers.items() if kind != "found")


def test_all_probes_run_in_one_child(folder, monkeypatch):
    for number in range(4):
        add(folder, f"CARD{number}", 101 + number, "nothing")
    add(folder, "HOST", 100, "hangs")  # of this priority it is not asked
    started, start = [], probing._run_child
    monkeypatch.setattr(
        probing, "_run_child", lambda tasks: (started.append(len(tasks)), start(tasks))[1])
    assert folder.registry().default_name() == "HOST"
    assert started == [4]


def test_a_hanging_probe_costs_its_limit_once(folder, monkeypatch):
    add(folder, "HANGS", 300, "hangs")
    add(folder, "HOST", 100)
    with Context(PROBE_SECONDS=1):
        with pytest.warns(CoreWarning, match=(
                "HANGS is passed over: .* did not answer within 1 s .plugin-hangs 1.0.*"
                "`core doctor HANGS`.* uninstall plugin-hangs")):
            assert folder.registry().default_name() == "HOST"
        monkeypatch.setattr(probing, "run_tasks", lambda tasks: pytest.fail("asked again"))
        with pytest.warns(CoreWarning, match="HANGS is passed over"):
            assert folder.registry().default_name() == "HOST"


def test_verdicts_are_kept_until_something_changes(folder, monkeypatch):
    add(folder, "CARD", 200, "found")
    count = folder.path / "sample_probes.py.count"
    for _ in range(2):
        folder.registry().default_name()
    assert count.read_text() == "x"
    monkeypatch.setenv("FOO_VISIBLE_DEVICES", "0")
    folder.registry().default_name()
    assert count.read_text() == "xx"
    verdicts([folder.registry().describe("CARD")], renew=True)
    assert count.read_text() == "xxx"
    kept = folder.path / "cache" / "probes.json"
    assert len(json.loads(kept.read_text())) == 1
    kept.write_text("{damaged")
    assert folder.registry().default_name() == "CARD"


def test_without_an_interpreter_for_the_child_a_probe_is_a_fault(folder, monkeypatch):
    add(folder, "CARD", 200, "found")
    add(folder, "HOST", 100)
    monkeypatch.setattr(probing.sys, "executable", "/no/such/python")
    with pytest.warns(CoreWarning, match="CARD is passed over: the probe could not be started"):
        assert folder.registry().default_name() == "HOST"


def test_a_probe_that_promises_too_much_is_no_reason_to_fall_back(folder):
    (folder.path / "sample_no_card.py").write_text("raise OSError('the driver is asleep')")
    folder.install("plugin-card", {"CARD": "sample_card_stub"}, {"sample_card_stub.py": """
        from core.plugin import DeviceSpec, hookimpl
        @hookimpl
        def core_devices():
            return [DeviceSpec(name="CARD", module="sample_no_card", priority=200,
                               probe="sample_probes:found")]
        """})
    add(folder, "HOST", 100)
    registry = folder.registry()
    assert registry.default_name() == "CARD"
    with pytest.raises(DeviceError, match="the driver is asleep .plugin-card 1.0"):
        registry.open(registry.default_name())


def test_explicit_choice_is_not_probed(folder):
    add(folder, "NONE", 300, "hangs")
    with Context(DEV="none:1"):
        assert folder.registry().default_name() == "NONE:1"
        assert folder.registry().default_choice().explicit
    with Context(DEV="NOME"), pytest.raises(DeviceError, match=r"asked for by Context\(DEV=...\)"):
        folder.registry().default_name()


def test_text_of_the_default_keeps_its_renderer(folder):
    add(folder, "HOST", 100)
    with Context(DEV="host::sample"):
        assert folder.registry().default_name() == "HOST::SAMPLE"
    with Context(DEV="host:2:sample"):
        assert folder.registry().default_name() == "HOST:2:SAMPLE"


def test_last_resort_warns_and_strict_refuses(folder):
    add(folder, "ASK", 0)
    with pytest.warns(CoreWarning, match="no device plugin installed: using the slow interpreter"):
        assert folder.registry().default_choice().text == "REFERENCE"
    with Context(STRICT=True), pytest.raises(CoreWarning):
        folder.registry().default_choice()


def test_a_broken_plugin_is_mentioned_and_passed_over(folder):
    add(folder, "HOST", 100)
    folder.broken("FOO", "raise OSError('no driver')")
    with pytest.warns(CoreWarning, match="device FOO cannot be used: OSError: no driver"):
        assert folder.registry().default_name() == "HOST"


def test_a_plugins_checks_run_in_a_child(folder):
    folder.broken(
        "FOO",
        """
        from core.plugin import Check, DeviceSpec, hookimpl
        @hookimpl
        def core_devices(): return [DeviceSpec(name="FOO", module="gone")]
        @hookimpl
        def core_checks(name): return [Check("libfoo.so", False, f"missing for {name}", "get it")]
        """,
    )
    (row,) = folder.registry().checks("foo")
    assert (row.subject, row.passed, row.finding, row.cure) == (
        "libfoo.so", False, "missing for FOO", "get it",
    )
