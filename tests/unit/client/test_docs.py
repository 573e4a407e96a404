"""docs/client.md: every program runs and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mqctl.testing import EmbeddedBroker

PAGE: Final = Path(__file__).parents[3] / "docs" / "client.md"
PROGRAM: Final = re.compile(r"```python\n(?P<code>.*?)```\n(?:```text\n(?P<output>.*?)```)?", re.DOTALL)
# Where the page says the cluster is.
NAMESRV: Final = "127.0.0.1:9876"


class Program(NamedTuple):
    code: str
    output: str | None


def programs() -> list[Program]:
    return [Program(found["code"], found["output"]) for found in PROGRAM.finditer(PAGE.read_text())]


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.code.splitlines()[-1])
def test_program(program: Program, mq: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program.code.replace(NAMESRV, mq.namesrv), PAGE.name, "exec"), {"__name__": "__main__"})
    if program.output is not None:
        assert printed.getvalue() == program.output
