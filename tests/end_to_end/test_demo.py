"""`core demo`: it learns, repeats itself, and reports what it measured."""

import json

import pytest
from click.testing import CliRunner

from core import Context, Tensor, dtypes
from core.tools.command_line import cli
from core.tools.demo import Training, run_demo, train


def epochs_are_short(device, config):
    """An epoch on the interpreter is 40 s, on anything else one."""
    if device == "REFERENCE" and not config.getoption("--full"):
        pytest.skip("an epoch takes the interpreter 40 s: only with --full")


@pytest.fixture(scope="module")
def reports(device, pytestconfig):
    """Two short runs of one seed."""
    epochs_are_short(device, pytestconfig)
    with Context(DEV=device):
        return [train(seed=1, epochs=2), train(seed=1, epochs=2)]


def test_steps_on_one_batch_lower_its_loss(device):
    with Context(DEV=device):
        training = Training(seed=0, epochs=1)
        batch = Tensor(list(range(32)), dtype=dtypes.int32)
        losses = [training._step(batch).item() for _ in range(5)]
    assert 1 < losses[0] < 5, "ten classes, nothing learned: about log 10"
    assert losses[-1] < 0.8 * losses[0]


def test_two_epochs_learn(reports):
    report = reports[0]
    assert report.test_images == 360
    assert report.steps == 2 * (1437 // 64)
    # Guessing gives 0.1; a network whose gradients or statistics are wrong stays near it.
    assert 0.6 < report.test_accuracy < 1


def test_a_seed_repeats_the_run(reports):
    assert reports[0].test_accuracy == reports[1].test_accuracy


def test_nothing_is_compiled_twice(reports):
    assert reports[1].compiled == 0
    assert reports[0].kernels == reports[1].kernels < 80


def test_measurements_make_sense(reports, device):
    report = reports[0]
    assert report.device == device
    assert 0 < report.step_milliseconds * report.steps <= report.total_seconds * 1e3
    assert 0 <= report.compile_seconds < report.total_seconds


def test_the_last_line_is_the_accuracy(device, pytestconfig, capsys):
    epochs_are_short(device, pytestconfig)
    with Context(DEV=device):
        report = run_demo(seed=2, epochs=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"test accuracy {report.test_accuracy:.4f}"
    assert [line.split()[0] for line in lines] == ["device", "kernels", "compile", "time", "test"]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_worst_of_five_seeds_is_good(device):
    """What the README promises; about a minute a seed."""
    with Context(DEV=device):
        found = []
        for seed in range(5):
            result = CliRunner().invoke(cli, ["demo", "--seed", str(seed), "--json"])
            found.append(json.loads(result.stdout)["test_accuracy"])
    assert min(found) >= 0.98, found
