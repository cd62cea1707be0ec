"""Launches are counted wherever they come from, and told apart by whose program it is."""

import numpy as np

from core.plugin import RecordedCall, Recording
from core.plugin.interfaces import offers
from core.plugin.registry import registry
from core.testing.conformance.launches import (
    CountedLoader,
    CountedRecording,
    LaunchCounter,
    count_launches,
)
from core.testing.sample_device import SampleLoader, SampleProgram

PACKAGE = "core.testing.conformance"


class OwnProgram(SampleProgram):
    pass


OwnProgram.__module__ = "core.testing.device"


class RecordingLoader(SampleLoader):
    def load(self, name, binary):
        return OwnProgram() if binary == b"own" else SampleProgram()

    def record(self, calls, support):
        assert all(isinstance(call.program, SampleProgram) for call in calls)
        return Replay(calls)


class Replay(Recording):
    def __init__(self, calls):
        self.calls, self.replays = calls, []

    def replay(self, blocks, scalars):
        self.replays.append((blocks, scalars))


def opened_with(plugin_folder, loader):
    plugin_folder.good("COUNTED")
    opened = plugin_folder.registry().open("COUNTED")
    opened.loaders["sample"] = loader
    return opened


def call(program):
    return RecordedCall(program=program, blocks=(), offsets=(), scalars=(), items=1, share=1,
                        meet=False)


def test_single_launches_are_counted(plugin_folder):
    opened = opened_with(plugin_folder, SampleLoader())
    counter = count_launches(opened)
    assert not offers(opened.loader, "record")
    program = opened.loader.load("f", b"")
    assert (counter.own, counter.foreign) == (0, 0)
    assert program([], [], wait=True) == 0.0
    assert program([], []) is None
    assert (counter.own, counter.foreign) == (2, 0)
    assert counter.classes == {"core.testing.sample_device.SampleProgram"}


def test_replays_are_counted_by_their_calls(plugin_folder):
    opened = opened_with(plugin_folder, RecordingLoader())
    counter = count_launches(opened)
    assert offers(opened.loader, "record")
    programs = [opened.loader.load("f", binary) for binary in (b"own", b"own", b"other")]
    recording = opened.loader.record([call(program) for program in programs], {})
    assert isinstance(recording, CountedRecording)
    assert counter.own == 0
    for blocks in ([1], [2]):
        recording.replay(blocks, {0: 3})
    assert recording.recording.replays == [([1], {0: 3}), ([2], {0: 3})]
    assert counter.own == 6


def test_programs_of_other_packages_do_not_count(plugin_folder, monkeypatch):
    opened = opened_with(plugin_folder, RecordingLoader())
    counter = count_launches(opened)
    monkeypatch.setattr(SampleProgram, "__module__", "some_plugin.device")
    opened.loader.load("f", b"other")([], [])
    opened.loader.load("f", b"own")([], [])
    assert (counter.own, counter.foreign) == (1, 1)


def test_a_device_is_wrapped_once(plugin_folder):
    opened = opened_with(plugin_folder, SampleLoader())
    counter = count_launches(opened)
    loader = opened.loader
    assert count_launches(opened) is counter
    assert opened.loader is loader
    assert isinstance(loader.loader, SampleLoader)
    assert isinstance(loader, CountedLoader)


def test_core_s_devices_own_what_is_in_their_folder():
    counter = LaunchCounter(registry.open("REFERENCE"))
    counter.add(registry.open("REFERENCE").loader.load("f", b"0 = SINK"))
    assert (counter.own, counter.foreign) == (1, 0)
    counter.add(SampleProgram())
    assert (counter.own, counter.foreign) == (1, 1)
    assert np.isscalar(counter.own)
