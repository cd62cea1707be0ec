"""Random programs on the device under test agree with the reference, and would find a fault."""

from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from core import Context
from core.testing.faults import FAULTS, injected
from core.testing.random_programs import MismatchError, Statistics, check, program_of, programs

LEAST = 20
#: Found within a few programs: the ones that every run looks for.
QUICK = ("maximum-without-nan", "half-a-flip", "overlapping-memory")


def run(number, device, record_property, **options):
    statistics = Statistics()

    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck), **options)
    @given(programs())
    def each(program):
        check(program, statistics)

    with Context(DEV=device):
        each()
    record_property("drawn", f"{number} programs drew {statistics.text()}")
    name, least = statistics.rarest()
    assert least >= LEAST, f"{name} was drawn {least} times only"


@pytest.mark.timeout(900)
def test_programs(device, record_property):
    """The same 200 in every run."""
    run(200, device, record_property, derandomize=True)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_many_programs(device, record_property):
    """2,000 that nobody has seen before."""
    run(2000, device, record_property)


def programs_to_find(fault, device):
    with Context(DEV=device, CACHE=False), injected(fault):
        for seed in count():
            if seed == 300:
                pytest.fail(f"{fault.name} is not found by 300 programs")
            try:
                check(program_of(seed))
            except MismatchError:
                return


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", [f for f in FAULTS if f.name in QUICK], ids=lambda f: f.name)
def test_a_fault_is_found(fault, device):
    programs_to_find(fault, device)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.name not in QUICK], ids=lambda f: f.name)
def test_every_fault_is_found(fault, device):
    programs_to_find(fault, device)


def test_there_are_ten_faults():
    assert len({f.name for f in FAULTS}) >= 10
