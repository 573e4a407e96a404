"""`mqctl doctor` with Apache's servers: it reads their clocks and sees that their version is another."""

from __future__ import annotations

import pytest

from tests.cli.running import Cli
from tests.peers.apache import ApacheBroker
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop


def test_brokers_of_two_versions(apache_broker: ApacheBroker, our_broker: OurBroker) -> None:
    ended = Cli({})("doctor", "-n", f"{apache_broker.namesrv};{our_broker.namesrv}", "-o", "json")
    found = {row["subject"]: row for row in ended.json if row["verdict"] != "wrong"}
    assert found[f"name server {apache_broker.namesrv}"]["verdict"] == "ok"
    for broker in (apache_broker, our_broker):
        assert found[f"broker {broker.name}:0 {broker.address}"]["found"] == "answers, V4_9_7"
    assert found["versions"]["verdict"] == "note"
    assert "Apache's V4_9_7" in found["versions"]["found"]
    assert not [row for row in ended.json if "clock is" in row["found"]]
    late = Cli({})("doctor", "-n", apache_broker.namesrv, "-o", "json", clock=1.0)
    assert [row for row in late.json if "clock is" in row["found"] and "ahead of ours" in row["found"]]
