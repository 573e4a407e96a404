"""docs/wire.md names the requests that the servers answer: all of them, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from mqctl.server.broker.app import Broker
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.namesrv.config import NamesrvConfig
from mqctl.server.namesrv.server import NameServer
from tests.aio import in_loop

PAGE = (Path(__file__).parents[3] / "docs/wire.md").read_text()
BROKER, NAMESRV = PAGE.split("## Requests the broker answers")[1].split("## Requests the name server answers")


@in_loop
async def test_requests_of_the_broker(tmp_path: Path) -> None:
    broker = Broker(BrokerConfig(store_path_root_dir=str(tmp_path)))
    first_cells = re.findall(r"^\| ([\d, ]+) \|", BROKER, re.MULTILINE)
    assert _numbers(" ".join(first_cells)) == sorted(broker.server._handlers)


def test_requests_of_the_name_server(tmp_path: Path) -> None:
    namesrv = NameServer(NamesrvConfig(kv_config_path=str(tmp_path / "kv.json")))
    assert _numbers(NAMESRV.replace("5.x", "")) == sorted(namesrv._server._handlers)


def _numbers(text: str) -> list[int]:
    return sorted(map(int, re.findall(r"\d+", text)))
