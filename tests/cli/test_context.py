"""`mqctl context`, and which name servers a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli({"HOME": str(tmp_path)})


def test_the_first_context_is_current_until_another_is_used(cli: Cli) -> None:
    cli.ok("context", "set", "prod", "-n", "10.0.0.1:9876; 10.0.0.2:9876")
    cli.ok("context", "set", "test", "--namesrv", "127.0.0.1:1")
    rows = cli.ok("context", "list", "-o", "json").json
    assert rows == [
        {"current": True, "name": "prod", "namesrv": "10.0.0.1:9876;10.0.0.2:9876"},
        {"current": False, "name": "test", "namesrv": "127.0.0.1:1"},
    ]
    cli.ok("context", "use", "test")
    assert cli.ok("context", "show", "-o", "json").json == [{"namesrv": "127.0.0.1:1"}]
    cli.ok("context", "delete", "test")
    assert cli.ok("context", "show", "-o", "json").json == [{"namesrv": "127.0.0.1:9876"}]


def test_what_goes_first(cli: Cli) -> None:
    """Each of these refuses connections, and the error says which one was tried."""
    for number, name in enumerate(("current", "chosen", "variable"), 1):
        cli.ok("context", "set", name, "-n", f"127.0.0.1:{number}")
    cli.ok("context", "use", "current")

    def tried(*options: str, **variables: str) -> str:
        ended = Cli({**cli.variables, **variables})(*options, "topic", "list")
        assert ended.status == ExitCode.UNREACHABLE
        return ended.err.split()[4].rstrip(":")

    assert tried() == "127.0.0.1:1"
    assert tried(NAMESRV_ADDR="127.0.0.1:4") == "127.0.0.1:4"
    assert tried(NAMESRV_ADDR="127.0.0.1:4", MQCTL_CONTEXT="variable") == "127.0.0.1:3"
    assert tried("--context", "chosen", NAMESRV_ADDR="127.0.0.1:4", MQCTL_CONTEXT="variable") == "127.0.0.1:2"
    assert tried("-n", "127.0.0.1:5", "--context", "chosen") == "127.0.0.1:5"


def test_setting_one_that_is_there_changes_it(cli: Cli) -> None:
    """`add` is what the command was called first."""
    cli.ok("context", "add", "prod", "-n", "127.0.0.1:1")
    cli.ok("context", "set", "prod", "--namesrv", "127.0.0.1:2")
    rows = cli.ok("context", "list", "-o", "json").json
    assert rows == [{"current": True, "name": "prod", "namesrv": "127.0.0.1:2"}]


def test_dry_runs(cli: Cli) -> None:
    cli.ok("context", "set", "prod", "-n", "127.0.0.1:1")
    before = cli.ok("context", "list").out
    [row] = cli.ok("context", "set", "test", "-n", "127.0.0.1:2", "--use", "--dry-run", "-o", "json").json
    assert row == {"current": True, "name": "test", "namesrv": "127.0.0.1:2"}
    cli.ok("context", "use", "prod", "--dry-run")
    cli.ok("context", "delete", "prod", "--dry-run")
    assert cli.ok("context", "list").out == before


def test_using_one_that_a_variable_hides_is_told(cli: Cli) -> None:
    cli.ok("context", "set", "prod", "-n", "127.0.0.1:1")
    ended = Cli({**cli.variables, "NAMESRV_ADDR": "127.0.0.1:2"}).ok("context", "use", "prod")
    assert ended.err == "warning: the variable NAMESRV_ADDR is set and goes before the current context\n"


@pytest.mark.parametrize(
    ("args", "status", "complaint"),
    [
        (["context", "use", "nowhere"], ExitCode.NOT_FOUND, "there is no context nowhere"),
        (["--context", "nowhere", "topic", "list"], ExitCode.NOT_FOUND, "there is no context nowhere"),
        (["context", "set", "x", "-n", "no-port"], ExitCode.USAGE, "'no-port' is not an address"),
    ],
)
def test_mistakes(cli: Cli, args: list[str], status: ExitCode, complaint: str) -> None:
    ended = cli(*args)
    assert ended.status == status
    assert complaint in ended.err


def test_a_damaged_file_is_one_line(cli: Cli, tmp_path: Path) -> None:
    cli.ok("context", "set", "prod", "-n", "127.0.0.1:1")
    (tmp_path / ".config/mqctl/contexts.json").write_text("{")
    ended = cli("topic", "list")
    assert ended.status == ExitCode.USAGE
    assert ended.err.splitlines()[0].endswith("contexts.json is not a file of contexts")


def test_without_a_home_there_are_none(cli: Cli) -> None:
    homeless = Cli({})
    assert homeless.ok("context", "list", "-o", "json").json == []
    assert homeless("context", "set", "x", "-n", "127.0.0.1:1").status == ExitCode.USAGE
