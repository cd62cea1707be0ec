"""What `core conformance` says about a run: the report as lines and as Markdown."""

import pytest
from click.testing import CliRunner

from core.foundation.errors import CoreError
from core.tools import report_conformance
from core.tools.command_line import cli
from core.tools.report_conformance import lines, markdown


def row(name, outcome="passed", reason=""):
    return {"id": name, "outcome": outcome, "reason": reason, "seconds": 0.1, "launches": 1}


ROWS = [
    row("L0/target"),
    row("L2/elementwise/ADD/float32"),
    row("L2/elementwise/ADD/float64", "excluded", "unsupported: no doubles"),
    row("L2/elementwise/SUB/float64", "excluded", "unsupported: no doubles"),
    row("L2/denormals/ADD/float32", "excluded", "differs: flushed"),
    row("L2/elementwise/NEG/int8", "failed", "NEG int8:\n  3 of 5 | differ"),
    row("L2/elementwise/SQRT/float32"),
    row("L2/denormals/SQRT/float32", "failed", "wrong"),
    row("L2/elementwise/CAST/int8-float64", "excluded", "unsupported: no doubles"),
    row("L2/elementwise/CAST/float32-float16"),
    row("L2/denormals/CAST/float32-float16", "excluded", "differs: flushed"),
    row("L2/reduce/MAX/float16"),
    row("L3/storage_over_two_gib", "skipped", "no room"),
]


def report(rows=ROWS, problems=()):
    counts = {o: sum(r["outcome"] == o for r in rows)
              for o in ("excluded", "passed", "failed", "skipped")}
    return {**counts, "cases": len(rows), "launches": 7, "problems": list(problems),
            "device": "FOO", "plugin": "plugin-foo 1.0", "core": "0.1", "architecture": "sm_90",
            "level": "L3", "seconds": 3.4, "rows": list(rows)}


def test_the_number_of_excluded_cells_comes_first():
    found = list(lines(report()))
    assert found[0] == "5 of 13 cells excluded, 5 passed, 2 failed, 1 skipped"
    assert found[1] == ("FOO (plugin-foo 1.0, sm_90) with core 0.1, levels L0 to L3: 7 launches in "
                        "its own programs, 3 s")
    assert "failed L2/elementwise/NEG/int8: NEG int8: 3 of 5 | differ" in found
    assert "skipped L3/storage_over_two_gib: no room" in found
    assert "excluded L2/elementwise/ADD/float64 and 2 more: unsupported: no doubles" in found
    assert found[-1] == "the device does not conform"


def test_a_problem_of_the_run_is_enough_not_to_conform():
    assert list(lines(report(ROWS[:3])))[-1] == "the device conforms"
    found = list(lines(report(ROWS[:3], ["nothing ran"])))
    assert "problem: nothing ran" in found
    assert found[-1] == "the device does not conform"


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_an_op_a_row_and_a_dtype_a_column():
    text = list(markdown(report()))
    assert text[0] == "5 of 13 cells excluded, 5 passed, 2 failed, 1 skipped"
    head = cells_of(next(line for line in text if line.startswith("| op |")))
    rows = {cells_of(line)[0]: dict(zip(head, cells_of(line), strict=True))
            for line in text if line.startswith("| ") and len(cells_of(line)) == len(head)}
    assert rows["ADD"] == {**dict.fromkeys(head, ""), "op": "ADD", "float32": "✓ᵈ", "float64": "x"}
    assert rows["NEG"]["int8"] == "**FAILED**"
    assert rows["SQRT"]["float32"] == "**FAILED**"
    assert rows["MAX"]["float16"] == "✓"
    assert rows["int8"]["float64"] == "x"
    assert rows["float32"]["float16"] == "✓ᵈ"
    assert "| L2 every op in every dtype | 4 | 5 | 2 |  |" in text
    assert "| L2/elementwise/NEG/int8 | failed | NEG int8: 3 of 5 \\| differ |" in text


def test_without_pytest_the_command_says_what_to_install(monkeypatch, device):
    monkeypatch.setattr(report_conformance, "find_spec", lambda name: None)
    with pytest.raises(CoreError, match="pytest.*not installed") as caught:
        CliRunner().invoke(cli, ["conformance", device], catch_exceptions=False)
    assert "core[testing]" in caught.value.cure
