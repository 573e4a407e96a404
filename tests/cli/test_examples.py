"""The files in examples/ are what they say they are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from mqctl.config import bind, load_properties
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.namesrv.config import NamesrvConfig
from tests.peers.ours import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
BROKERS = sorted(EXAMPLES.rglob("broker*.conf"))
UNITS = sorted((EXAMPLES / "systemd").iterdir())
TWO_MASTERS = sorted((EXAMPLES / "two-masters").iterdir())


def read(kind: type[msgspec.Struct], file: Path) -> msgspec.Struct:
    config, warnings = bind(kind, load_properties(file), str(file))
    assert warnings == []
    return config


@pytest.mark.parametrize("file", BROKERS, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_key_of_a_broker_is_known(file: Path) -> None:
    read(BrokerConfig, file)


def test_every_key_of_the_name_server_is_known() -> None:
    read(NamesrvConfig, EXAMPLES / "namesrv.conf")


def test_two_masters_are_one_cluster() -> None:
    one, other = (load_properties(file) for file in TWO_MASTERS)
    assert {key for key in one if one[key] != other[key]} == {"brokerName", "brokerIP1"}
    hosts = {address.partition(":")[0] for address in one["namesrvAddr"].split(";")}
    assert hosts == {one["brokerIP1"], other["brokerIP1"]}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    """It also looks whether the program is there, so it gets one that is."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    text, replaced = re.subn("^ExecStart=/usr/local/bin/mqctl ", "ExecStart=/bin/true ", unit.read_text(), flags=re.M)
    assert replaced == 1
    copy = tmp_path / unit.name
    copy.write_text(text)
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


def test_units_start_what_the_examples_configure() -> None:
    for unit in UNITS:
        [file] = re.findall(r" -c /etc/mqctl/(\S+) ", unit.read_text())
        assert (EXAMPLES / file).exists()
