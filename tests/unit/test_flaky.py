"""The table of a series of runs, from files as pytest writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import flaky

HEAD = '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">'
FIRST = f"""{HEAD}<testsuite name="pytest" errors="1" failures="2" skipped="1" tests="5" time="2.603" hostname="vm">
<testcase classname="tests.test_x" name="test_sometimes" file="tests/test_x.py" line="2" time="0.001">
<failure message="AssertionError: first&#10;second">def test_sometimes():
&gt;       raise AssertionError("first\\nsecond")
tests/test_x.py:5: AssertionError</failure></testcase>
<testcase classname="tests.test_x" name="test_good" file="tests/test_x.py" line="10" time="0.001" />
<testcase classname="tests.test_x" name="test_skip" file="tests/test_x.py" line="11" time="0.000">
<skipped type="pytest.skip" message="unconditional skip">tests/test_x.py:12: unconditional skip</skipped></testcase>
<testcase classname="tests.test_x" name="test_tear[&quot;a&quot;]" file="tests/test_x.py" line="9" time="0.001">
<failure message="assert 1 == 2">tests/test_x.py:10: AssertionError</failure></testcase>
<testcase classname="tests.test_x" name="test_tear[&quot;a&quot;]" file="tests/test_x.py" line="9" time="0.000">
<error message="failed on teardown with &quot;RuntimeError: in teardown&quot;">tests/test_x.py:9: RuntimeError</error>
</testcase></testsuite></testsuites>"""
SECOND = f"""{HEAD}<testsuite name="pytest" errors="1" failures="0" skipped="1" tests="4" time="2.100" hostname="vm">
<testcase classname="tests.test_x" name="test_sometimes" file="tests/test_x.py" line="2" time="0.001" />
<testcase classname="tests.test_x" name="test_good" file="tests/test_x.py" line="10" time="0.001" />
<testcase classname="tests.test_x" name="test_skip" file="tests/test_x.py" line="11" time="0.000">
<skipped type="pytest.skip" message="unconditional skip">tests/test_x.py:12: unconditional skip</skipped></testcase>
<testcase classname="tests.test_x" name="test_tear[&quot;a&quot;]" file="tests/test_x.py" line="9" time="0.000">
<error message="failed on teardown with &quot;RuntimeError: in teardown&quot;">tests/test_x.py:9: RuntimeError</error>
</testcase></testsuite></testsuites>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A series of two runs, as an interrupted call left it."""
    (tmp_path / "arguments").write_text("tests/test_x.py")
    (tmp_path / "run-01.xml").write_text(FIRST)
    (tmp_path / "run-02.xml").write_text(SECOND)
    (tmp_path / "run-03.partial").write_text(SECOND)
    return tmp_path


def test_what_failed_is_listed_by_how_often_with_its_first_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flaky.main(["--runs", "2", "--dir", str(folder), "tests/test_x.py"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        '  2 of 2  tests/test_x.py::test_tear["a"]  assert 1 == 2',
        "  1 of 2  tests/test_x.py::test_sometimes  AssertionError: first",
        "0 of 2 runs without a failure; 4 tests in each, 1 of them skipped",
    ]


def test_runs_of_other_tests_are_not_mixed_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flaky.main(["--runs", "2", "--dir", str(folder), "tests/test_y.py"]) == 2
    assert "other arguments" in capsys.readouterr().err


def test_a_series_goes_on_with_the_run_that_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = folder / "test_good.py"
    good.write_text("def test_good(): pass\n")
    (folder / "arguments").write_text(str(good))
    assert flaky.main(["--runs", "3", "--dir", str(folder), str(good)]) == 1
    assert "1 of 3 runs without a failure" in capsys.readouterr().out
    assert flaky.read(folder / "run-03.xml") == flaky.Run(tests=1, skipped=0, failed={})
