"""`mqctl doctor` with real servers, healthy ones and such with planted faults."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mqctl.commands.doctor.finding import note, ok
from mqctl.commands.doctor.machine import file_size, java, memory, open_files, spark
from mqctl.exit import ExitCode
from mqctl.server.broker.config import local_address
from tests.cli.running import Cli, Ended, program
from tests.cli.sparkless import machine, script
from tests.peers.ours import REPOSITORY, OurBroker, OurNamesrv
from tests.peers.process import free_port, write_properties

NOBODY = Cli({"NAMESRV_ADDR": "127.0.0.1:1"})


def findings(ended: Ended, subject: str) -> list[dict[str, Any]]:
    """Those whose subject begins so."""
    return [row for row in ended.json if row["subject"].startswith(subject)]


def one(ended: Ended, subject: str) -> tuple[str, str, str]:
    (row,) = findings(ended, subject)
    return row["verdict"], row["found"], row["fix"]


def doctor(cli: Cli, *args: str, **options: Any) -> Ended:
    ended = cli("doctor", "-o", "json", *args, **options)
    wrong = [row for row in ended.json if row["verdict"] == "wrong"]
    assert ended.status == (ExitCode.REFUSED if wrong else ExitCode.DONE)
    assert all(bool(row["fix"]) == (row["verdict"] != "ok") for row in ended.json), "what is not ok has its fix"
    return ended


# -- all is well ----------------------------------------------------------------------------------------


def test_a_healthy_broker_and_its_configuration(cli: Cli, broker: OurBroker) -> None:
    ended = doctor(cli, "-c", str(broker.conf_file))
    assert (ended.status, ended.err) == (0, "")
    assert one(ended, str(broker.conf_file))[0] == "ok"
    assert one(ended, f"name server {broker.namesrv}")[1].startswith("answers")
    assert one(ended, f"broker broker-a:0 {broker.address}") == ("ok", "answers, V4_9_7", "")
    assert one(ended, f"port {broker.port} ")[1] == f"held by mqctl broker, process {broker.pid}"
    assert "a broker is using it" in [row["found"] for row in findings(ended, f"store {broker.store_dir}")]
    assert one(ended, "versions")[1].startswith("all mqctl ")
    assert one(ended, "clock")[0] == "ok"


def test_a_machine_without_servers_is_not_ill(tmp_path: Path) -> None:
    """Unless somebody said that there are some. (Others may use the usual ports of this machine.)"""
    ended = Cli({})("doctor", "-o", "json", "--store", str(tmp_path / "new" / "store"))
    assert "wrong" not in {row["verdict"] for row in findings(ended, "name server")}
    assert findings(ended, "store")[0]["found"] == f"is not there yet; {tmp_path} can be written to"
    assert list(tmp_path.iterdir()) == []


def test_as_a_table(cli: Cli) -> None:
    ended = cli.ok("doctor")
    assert ended.out.splitlines()[0].split() == ["VERDICT", "SUBJECT", "FOUND", "FIX"]


# -- name servers and brokers ---------------------------------------------------------------------------


def test_a_name_server_that_is_not_there() -> None:
    ended = doctor(NOBODY)
    verdict, found, fix = one(ended, "name server 127.0.0.1:1")
    assert verdict == "wrong"
    assert "127.0.0.1:1" in found
    assert fix.startswith("start it, correct the address")
    assert ended.err.endswith(" are wrong\n")


def test_a_broker_that_tells_clients_a_wrong_address(tmp_path: Path) -> None:
    """The classic. It listens on one address and registers as another."""
    with OurNamesrv(tmp_path / "namesrv") as namesrv:
        port = free_port(-2, 1)
        conf = {"brokerName": "lost", "brokerIP1": "127.0.0.99", "bindAddress": "127.0.0.1", "listenPort": port}
        write_properties(tmp_path / "b.conf", {**conf, "namesrvAddr": namesrv.address, "storePathRootDir": "store"})
        with program("broker", "-c", "b.conf", cwd=tmp_path) as broker:
            broker.line()
            verdict, found, fix = one(doctor(Cli({}), "-n", namesrv.address), f"broker lost:0 127.0.0.99:{port}")
            broker.process.send_signal(signal.SIGSTOP)
            silent = one(doctor(Cli({}), "-n", namesrv.address, "--timeout", "0.2"), "broker lost:0")
    assert verdict == "wrong"
    assert "this broker answers at 127.0.0.1, and tells clients another address" in found
    assert fix.startswith("brokerIP1=127.0.0.1 in its configuration")
    assert silent[0] == "wrong"
    assert silent[2].startswith("if it runs: brokerIP1 is an address that cannot be reached from here")


@pytest.mark.skipif(local_address().startswith("127."), reason="this machine has no address but the loopback one")
def test_a_broker_that_calls_itself_loopback(tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "namesrv", {"bindAddress": "0.0.0.0"}) as namesrv:
        outside = f"{local_address()}:{namesrv.port}"
        with OurBroker(tmp_path / "broker", namesrv.address) as broker:
            verdict, found, fix = one(doctor(Cli({}), "-n", outside), f"broker broker-a:0 {broker.address}")
    assert verdict == "wrong"
    assert found.startswith(f"registered with {outside} as 127.0.0.1")
    assert fix.startswith("set brokerIP1")


def test_name_servers_that_do_not_know_the_same(namesrv: OurNamesrv, broker: OurBroker, tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "namesrv") as other:
        alone = doctor(Cli({}), "-n", other.address)
        both = doctor(Cli({}), "-n", f"{namesrv.address};{other.address}")
    assert one(alone, "brokers") == ("wrong", "none has registered", f"start one: mqctl broker -n '{other.address}'")
    verdict, found, fix = one(both, f"broker {broker.address}")
    assert (verdict, found.partition(":  ")[0]) == (
        "wrong",
        f"not registered with {other.address}: clients that ask there do not find it",
    )
    assert fix.startswith(f"namesrvAddr={namesrv.address};{other.address}")


@pytest.mark.parametrize(("ahead", "way"), [(3600, "behind"), (-3600, "ahead of")])
def test_a_clock_that_is_off(cli: Cli, ahead: int, way: str) -> None:
    ended = doctor(cli, clock=time.time() + ahead)
    (clock,) = [row for row in findings(ended, "broker broker-a") if "clock" in row["found"]]
    assert re.fullmatch(rf"its clock is 3[56]\d\d s {way} ours", clock["found"])
    assert "NTP" in clock["fix"]


# -- a configuration ------------------------------------------------------------------------------------


def test_keys_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "b.conf"
    write_properties(file, {"listenprot": 10911, "haListenPort": 10912, "brokerIP1": "192.0.2.1", "namesrvAddr": "h:1"})
    ended = NOBODY("doctor", "-c", str(file), "-o", "json")
    told = {row["found"]: (row["verdict"], row["fix"]) for row in findings(ended, str(file))}
    assert told["unknown key listenprot; did you mean listenPort?"][0] == "wrong"
    assert told["haListenPort is a key of Apache's brokers"][0] == "note"
    verdict, fix = told["brokerIP1 192.0.2.1 is none of this machine's addresses"]
    assert verdict == "note"
    assert "127.0.0.1" in fix
    assert findings(ended, "name server h:1")[0]["verdict"] == "wrong", "those of the file are asked"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("listenPort=x\n", "listenPort='x': expected a whole number from 3 to 65534"),
        ("brokerIP1=no such name\n", "brokerIP1 'no such name' cannot be resolved"),
        (None, "cannot read"),
    ],
)
def test_a_configuration_no_broker_starts_with(tmp_path: Path, content: str | None, complaint: str) -> None:
    file = tmp_path / "b.conf"
    if content is not None:
        file.write_text(content)
    found = findings(doctor(NOBODY, "-c", str(file)), str(file))
    assert [row["verdict"] for row in found if complaint in row["found"]] == ["wrong"]


def test_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        file = tmp_path / "b.conf"
        write_properties(file, {"listenPort": port, "bindAddress": "127.0.0.1", "storePathRootDir": tmp_path / "s"})
        taken = findings(doctor(NOBODY, "-c", str(file)), f"port {port} ")
        write_properties(file, {"bindAddress": "192.0.2.1", "storePathRootDir": tmp_path / "s"})
        elsewhere = one(doctor(NOBODY, "-c", str(file)), "port 10911")
    assert taken[0]["verdict"] == "wrong"
    assert f", process {os.getpid()}: " in taken[0]["found"]
    if Path("/proc").exists():
        assert taken[1]["verdict"] == "note", "the kernel chose it, so it may do so again"
    assert elsewhere[:2] == ("wrong", "192.0.2.1 is no address of this machine")


# -- the store ------------------------------------------------------------------------------------------


def store_findings(store: Path, *args: str) -> list[tuple[str, str]]:
    ended = doctor(NOBODY, *args, *(() if args else ("--store", str(store))))
    return [(row["verdict"], row["found"]) for row in findings(ended, f"store {store}")]


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert store_findings(tmp_path / "file" / "store") == [("wrong", f"{tmp_path / 'file'} is not a folder")]
    if Path("/proc/self").exists():
        verdict, found = store_findings(Path("/proc/store"))[0]
        assert (verdict, found.partition(":")[0]) == ("wrong", "/proc cannot be written to")


def test_a_store_whose_broker_was_killed(tmp_path: Path) -> None:
    (tmp_path / "abort").touch()
    assert ("note", "its last broker did not end in order") in store_findings(tmp_path)


def test_a_store_of_other_sizes(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(65536))
    (tmp_path / "commitlog" / f"{65536:020}").touch()
    write_properties(tmp_path / "b.conf", {"storePathRootDir": tmp_path})
    wanted = "its log has files of 65,536 bytes, and mappedFileSizeCommitLog is 1,073,741,824"
    assert ("wrong", wanted) in store_findings(tmp_path, "-c", str(tmp_path / "b.conf"))
    assert wanted not in [found for _, found in store_findings(tmp_path)], "the sizes are not known"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_store_of_two_users(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    os.chown(tmp_path / "config", 12345, -1)
    assert ("wrong", f"{tmp_path / 'config'} and 0 more belong to another user than the folder") in store_findings(
        tmp_path
    )


# -- the machine ----------------------------------------------------------------------------------------


def test_limits() -> None:
    no_limit = resource.RLIM_INFINITY
    assert [open_files(1024, hard).verdict for hard in (1000, 4096, 65536, no_limit)] == ["wrong", "note", "ok", "ok"]
    assert [file_size(limit, 1000).verdict for limit in (999, 1000, no_limit)] == ["wrong", "ok", "ok"]
    assert [memory(mib * 1024 * 1024).verdict for mib in (100, 300)] == ["wrong", "ok"]


def test_a_limit_of_the_real_process(tmp_path: Path) -> None:
    command = f"ulimit -n 300; ulimit -f 1000; exec {sys.executable} -m mqctl doctor -o csv"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "NAMESRV_ADDR": "127.0.0.1:1"}
    ended = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == ExitCode.REFUSED
    assert 'wrong,open files,"limit 300 ' in ended.stdout
    assert 'wrong,size of files,"limit ' in ended.stdout


def test_what_analyze_needs(tmp_path: Path) -> None:
    """It is looked for as analyze does, so also where that would find another one first."""
    found = machine(tmp_path)
    assert (java(found.variables), spark(found.variables)) == (
        ok("Java for analyze", f"Java 17, {tmp_path}/bin/java"),
        ok("Spark for analyze", f"Spark 4.3, {found.home}"),
    )
    found.has_java("1.8.0_292")
    found.has_spark("3.5.1")
    told = doctor(Cli({**found.variables, "NAMESRV_ADDR": "127.0.0.1:1"}))
    verdict, text, fix = one(told, "Java")
    assert (verdict, text) == ("note", f"{tmp_path}/bin/java is Java 8; Spark needs 17 or later")
    assert fix.startswith("install a Java runtime 17 or later") and fix.endswith("; nothing else needs it")
    assert one(told, "Spark")[:2] == ("note", f"{found.home} holds Spark 3.5, which is too old")
    (found.home / "bin" / "spark-submit").unlink()
    nothing = {**found.variables, "PATH": str(tmp_path / "nowhere")}
    assert java(nothing)[:3] == ("note", "Java for analyze", "there is no Java on this machine")
    assert spark(nothing)[:3] == ("note", "Spark for analyze", "there is no Spark on this machine")


def test_a_python_that_lacks_what_jobs_import(tmp_path: Path) -> None:
    found = machine(tmp_path)
    python = Path(found.variables["PYSPARK_PYTHON"])
    script(python, '#!/bin/sh\n[ "$3" = numpy ] && echo pyarrow || echo\n')
    assert spark(found.variables) == note(
        "Spark for analyze", f"Spark 4.3, {found.home}; {python} has no pyarrow", f"{python} -m pip install pyarrow"
    )
