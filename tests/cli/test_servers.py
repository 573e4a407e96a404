"""The commands that run and stop servers, as the real program in a folder of its own."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from mqctl.properties import parse_properties
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.namesrv.config import NamesrvConfig
from tests.cli.running import Cli, Program, execute, program
from tests.peers.ours import REPOSITORY, OurBroker, OurNamesrv
from tests.peers.process import free_port, write_properties


def standalone_args(tmp_path: Path) -> list[str]:
    ports = ["--namesrv-port", str(free_port()), "--broker-port", str(free_port(-2, 1))]
    return ["standalone", "--store", str(tmp_path / "data"), *ports]


def no_trace(text: str) -> bool:
    return "Traceback" not in text and not re.search(r'^  File "', text, re.MULTILINE)


# -- standalone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_standalone_says_one_line_works_and_stops_cleanly(tmp_path: Path, signal_number: int) -> None:
    args = standalone_args(tmp_path)
    with program(*args, cwd=tmp_path) as both:
        assert both.line() == (
            f"standalone: name server listening on 127.0.0.1:{args[4]}, "
            f"broker broker-a on 127.0.0.1:{args[6]}, store {tmp_path / 'data'}"
        )
        cli = Cli({"NAMESRV_ADDR": f"127.0.0.1:{args[4]}"})
        cli.ok("topic", "update", "t")
        cli.ok("msg", "send", "t", "kept")
        ended = both.end(signal_number)
    assert (ended.status, ended.out, ended.err) == (0, "", "")


def test_standalone_keeps_its_messages(tmp_path: Path) -> None:
    args = standalone_args(tmp_path)
    cli = Cli({"NAMESRV_ADDR": f"127.0.0.1:{args[4]}"})
    with program(*args, cwd=tmp_path) as both:
        both.line()
        cli.ok("msg", "send", "t", "kept")
        both.end()
    with program(*args, cwd=tmp_path) as both:
        both.line()
        assert cli.ok("msg", "tail", "t", "--from", "earliest", "--max", "1", "-o", "json").json["body"] == "kept"


def test_standalone_keeps_everything_in_its_folder(tmp_path: Path) -> None:
    """HOME is tmp_path here, where servers by themselves put ~/store and ~/namesrv."""
    args = standalone_args(tmp_path)
    with program(*args, cwd=tmp_path) as both:
        both.line()
        Cli({"NAMESRV_ADDR": f"127.0.0.1:{args[4]}"}).ok("topic", "update", "t", "--order")
        both.end()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (tmp_path / "data" / "namesrv" / "kvConfig.json").exists()


def test_standalone_tells_what_to_type_next_on_a_terminal(tmp_path: Path) -> None:
    args = standalone_args(tmp_path)
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mqctl", *args],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    )
    os.close(theirs)
    try:
        with open(terminal, encoding="utf-8", newline="\n") as screen:  # noqa: PTH123 - a descriptor, not a path
            lines = [screen.readline().rstrip() for _ in range(8)]
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert lines[0].startswith("standalone: name server listening on")
    assert f"  mqctl -n 127.0.0.1:{args[4]} topic update orders" in lines
    assert f"  mqctl -n 127.0.0.1:{args[4]} msg send orders 'hello'" in lines


def test_standalone_with_a_brokers_file(tmp_path: Path) -> None:
    write_properties(tmp_path / "b.conf", {"brokerName": "mine", "namesrvAddr": "elsewhere:9876", "listenPort": 11})
    args = [*standalone_args(tmp_path), "-c", "b.conf", "-p"]
    ended = execute(*args, cwd=tmp_path)
    properties = parse_properties(ended.out)
    assert properties["brokerName"] == "mine"
    assert properties["listenPort"] == args[6], "the command line wins over the file"
    assert properties["namesrvAddr"] == f"127.0.0.1:{args[4]}"
    assert ended.err == (
        "warning: b.conf: namesrvAddr is not used, the broker registers with the name server beside it\n"
    )


def test_standalone_on_ports_that_are_taken(tmp_path: Path, namesrv: OurNamesrv) -> None:
    args = ["standalone", "--namesrv-port", str(namesrv.port), "--broker-port", str(free_port(-2, 1))]
    ended = execute(*args, cwd=tmp_path)
    assert ended.status == ExitCode.USAGE
    assert ended.out == ""
    assert ended.err == (
        f"error: port {namesrv.port} on 127.0.0.1 is already in use\n"
        "hint: stop what listens there, or choose another listenPort (here: --namesrv-port, --broker-port)\n"
    )


# -- namesrv and broker ---------------------------------------------------------------------------------


def test_the_lines_of_namesrv_and_broker(namesrv: OurNamesrv, broker: OurBroker) -> None:
    kv = namesrv.workdir / "namesrv" / "kvConfig.json"
    assert namesrv.console.read_text() == f"name server listening on {namesrv.address}, kv config {kv}\n"
    assert broker.console.read_text() == (
        f"broker broker-a listening on {broker.address}, store {broker.store_dir}, name servers {namesrv.address}\n"
    )


def test_a_port_that_is_taken(tmp_path: Path, namesrv: OurNamesrv) -> None:
    ended = execute("namesrv", "-c", str(namesrv.conf_file), cwd=tmp_path)
    assert ended.status == ExitCode.USAGE
    assert ended.err == (
        f"error: port {namesrv.port} on 127.0.0.1 is already in use\n"
        "hint: stop what listens there, or choose another listenPort\n"
    )


@pytest.mark.parametrize(("noun", "kind"), [("broker", BrokerConfig), ("namesrv", NamesrvConfig)])
def test_print_shows_every_key_and_starts_nothing(tmp_path: Path, noun: str, kind: type) -> None:
    ended = execute(noun, "-p", cwd=tmp_path)
    assert ended.status == 0
    assert set(kind.__struct_encode_fields__) == set(parse_properties(ended.out))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "in_file", "variable", "expected"),
    [
        (["-n", "flag:1"], "file:1", "env:1", "flag:1"),
        ([], "file:1", "env:1", "file:1"),
        ([], None, "env:1", "env:1"),
        ([], None, None, ""),
    ],
)
def test_where_a_broker_finds_its_name_servers(
    tmp_path: Path, args: list[str], in_file: str | None, variable: str | None, expected: str
) -> None:
    write_properties(tmp_path / "b.conf", {"namesrvAddr": in_file} if in_file else {})
    variables = {"NAMESRV_ADDR": variable} if variable else {}
    ended = execute("broker", "-c", "b.conf", *args, "-p", cwd=tmp_path, variables=variables)
    assert parse_properties(ended.out)["namesrvAddr"] == expected


def test_an_unknown_key_is_a_warning(tmp_path: Path) -> None:
    write_properties(tmp_path / "b.conf", {"listenprot": 1, "brokerName": "b"})
    ended = execute("broker", "-c", "b.conf", "-p", cwd=tmp_path)
    assert ended.status == 0
    assert ended.err == "warning: b.conf: unknown key listenprot; did you mean listenPort?\n"


def test_a_file_name_that_a_change_over_the_wire_goes_to(tmp_path: Path) -> None:
    write_properties(tmp_path / "n.conf", {"listenPort": 1})
    ended = execute("namesrv", "-c", "n.conf", "-p", cwd=tmp_path)
    assert parse_properties(ended.out)["configStorePath"] == str(tmp_path / "n.conf")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["broker", "-c", "missing.conf"], "error: cannot read missing.conf: No such file or directory\n"),
        (["namesrv", "-c", "bad.conf"], "error: bad.conf: listenPort='x': expected a whole number from 0 to 65535\n"),
        (["broker", "--log-file", "bad.conf/log"], "error: cannot write the log file bad.conf/log: "),
        (["broker", "autoCreateTopicEnable=true"], "No such command 'autoCreateTopicEnable=true'"),
        (["broker", "--log-level", "loud"], "'loud' is not one of"),
    ],
)
def test_starts_that_fail(tmp_path: Path, args: list[str], complaint: str) -> None:
    write_properties(tmp_path / "bad.conf", {"listenPort": "x"})
    ended = execute(*args, cwd=tmp_path)
    assert ended.status == ExitCode.USAGE
    assert ended.out == ""
    assert complaint in ended.err
    assert no_trace(ended.err)


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    write_properties(tmp_path / "b.conf", {"storePathRootDir": "file/store", "listenPort": free_port(-2, 1)})
    ended = execute("broker", "-c", "b.conf", cwd=tmp_path)
    assert ended.status == ExitCode.REFUSED
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert "file/store" in ended.err
    assert ended.err.count("\n") == 2, "what is wrong, and the way out"


def test_log_file(tmp_path: Path) -> None:
    write_properties(tmp_path / "n.conf", {"listenPort": free_port(), "bindAddress": "127.0.0.1"})
    with program("namesrv", "-c", "n.conf", "--log-file", "logs/n.log", "--log-level", "info", cwd=tmp_path) as server:
        server.line()
        assert server.end().status == 0
    lines = (tmp_path / "logs" / "n.log").read_text().splitlines()
    assert "listening on 127.0.0.1" in lines[0]
    assert lines[-1].endswith("name server: stopped")


# -- shutdown -------------------------------------------------------------------------------------------
#
# Always with --port: without it the command stops whatever servers the user of this machine runs.


def start_standalone(tmp_path: Path) -> tuple[Program, list[str]]:
    args = standalone_args(tmp_path)
    both = Program(*args, cwd=tmp_path)
    both.line()
    return both, args


@pytest.mark.parametrize(("kind", "port_at"), [("namesrv", 4), ("broker", 6)])
def test_shutdown_stops_what_listens_on_the_port(tmp_path: Path, kind: str, port_at: int) -> None:
    both, args = start_standalone(tmp_path)
    would = Cli({}).ok("shutdown", kind, "--port", args[port_at], "--dry-run")
    assert would.out == f"would stop {kind} {both.process.pid}\n"
    assert both.process.poll() is None
    # In this process, which is the parent: somebody must wait for the child, or it stays as a zombie.
    ended = Cli({})("shutdown", kind, "--port", args[port_at])
    stopped = both.wait()
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == f"stopping {kind} {both.process.pid}\nstopped\n"
    assert stopped.status == 0


def test_shutdown_of_nothing(tmp_path: Path) -> None:
    port = free_port()
    ended = execute("shutdown", "broker", "--port", str(port), cwd=tmp_path)
    assert ended.status == ExitCode.NOT_FOUND
    assert ended.err == f"error: no broker of this user that listens on port {port} runs on this machine\n"


def test_shutdown_does_not_mistake_one_kind_for_the_other(tmp_path: Path, namesrv: OurNamesrv) -> None:
    ended = execute("shutdown", "broker", "--port", str(namesrv.port), cwd=tmp_path)
    assert ended.status == ExitCode.NOT_FOUND
    assert namesrv.running


def test_shutdown_that_takes_too_long_says_so(tmp_path: Path) -> None:
    both, args = start_standalone(tmp_path)
    both.process.send_signal(signal.SIGSTOP)  # it cannot react to SIGTERM now
    ended = Cli({})("shutdown", "broker", "--port", args[6], "--wait", "0.2")
    both.process.send_signal(signal.SIGCONT)
    assert both.wait().status == 0
    assert ended.status == ExitCode.UNREACHABLE
    assert ended.err == (
        f"error: still running after 0.2 s: {both.process.pid}\n"
        f"hint: wait and look again, or end it without saving: kill -9 {both.process.pid}\n"
    )
