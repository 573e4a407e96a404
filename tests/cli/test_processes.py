"""Which command lines are servers."""

from __future__ import annotations

import pytest

from mqctl.processes import server_noun

PYTHON = ["/usr/bin/python3.11", "-X", "dev", "-m", "mqctl"]


@pytest.mark.parametrize(
    ("cmdline", "noun"),
    [
        (["mqctl", "broker"], "broker"),
        (["/opt/bin/mqctl", "namesrv", "-c", "x.conf"], "namesrv"),
        (["/usr/bin/python3", "/opt/bin/mqctl", "broker", "-n", "a:1"], "broker"),
        ([*PYTHON, "standalone", "--store", "broker"], "standalone"),
        ([*PYTHON, "-n", "a:1", "broker", "--log-file", "f", "-c", "shutdown"], "broker"),
        ([*PYTHON, "broker", "status", "-b", "x:1"], None),
        ([*PYTHON, "shutdown", "broker"], None),
        ([*PYTHON, "topic", "list"], None),
        ([*PYTHON], None),
        (["python3", "-m", "other", "mqctl", "broker"], None),
        (["python3", "-c", "mqctl", "broker"], None),
        (["vim", "mqctl", "broker"], None),
        (["bash", "-c", "mqctl broker"], None),
        ([], None),
    ],
)
def test_server_noun(cmdline: list[str], noun: str | None) -> None:
    assert server_noun(cmdline) == noun
