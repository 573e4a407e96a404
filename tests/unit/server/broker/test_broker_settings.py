"""The broker's configuration over the network, and what it answers about things it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.config import dump, parse_properties
from mqctl.server.broker.app import Broker
from mqctl.server.broker.config import AT_START_KEYS, PROTECTED_KEYS, BrokerConfig
from tests.aio import in_loop
from tests.unit.server.broker.harness import Client, House, broker_config, running, serving

UPDATE, GET, RUNTIME, HA_STATUS = 25, 26, 28, 907
FILE = "# ours\nfileReservedTime = 72\n\nmaxMessageSize=1000\n"


async def settings(client: Client) -> dict[str, str]:
    return parse_properties((await client.ok(GET)).body.decode())


def test_every_key_that_is_treated_apart_exists() -> None:
    known = set(parse_properties(dump(BrokerConfig())))
    assert known >= AT_START_KEYS
    assert known >= PROTECTED_KEYS
    assert not AT_START_KEYS & PROTECTED_KEYS


@in_loop
async def test_a_change_is_in_force_and_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(FILE)
    broker = Broker(broker_config(tmp_path / "store"), config_file=file)
    await broker.start()
    house = House(broker)
    try:
        client = house.client()
        await client.create_topic()
        assert (await client.send(b"x" * 2000)).code == 0
        answer = await client.ok(UPDATE, body=b"maxMessageSize=1500\nnoSuchKey=1\nflushDiskType=SYNC_FLUSH\n")
        assert answer.remark == "in force after the next start: flushDiskType"
        assert (await client.send(b"x" * 2000)).code == 13
        found = await settings(client)
        assert (found["maxMessageSize"], found["flushDiskType"]) == ("1500", "SYNC_FLUSH")
        assert file.read_text() == FILE.replace("=1000", "=1500") + "flushDiskType=SYNC_FLUSH\n"
        version = (await client.ok(GET)).fields()["version"]
        assert '"counter":1' in version
    finally:
        await house.close_clients()
        await broker.stop()


@in_loop
async def test_without_a_file_a_change_lasts_until_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ok(UPDATE, body=b"maxMessageSize=10")
        assert "not kept" in (answer.remark or "")
        assert (await client.send(b"x" * 20)).code == 13
        assert (await client.ok(UPDATE, body=b"")).remark is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"brokerName=x", 16),
        (b"maxMessageSize=5\nstorePathRootDir=/tmp/x", 16),
        (b"namesrvAddr=evil:9876", 16),
        (b"maxMessageSize=much", 1),
        (b"fileReservedTime=-1", 1),
        (b"a=\\u12", 1),
        (b"a=" + b"x" * 70_000, 1),
    ],
)
@in_loop
async def test_a_change_that_may_not_be_changes_nothing(tmp_path: Path, body: bytes, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        before = await settings(client)
        assert (await client.ask(UPDATE, body=body)).code == code
        assert await settings(client) == before


@in_loop
async def test_a_change_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    broker = Broker(broker_config(tmp_path / "store"), config_file=tmp_path / "gone.conf")
    await broker.start()
    house = House(broker)
    try:
        client = house.client()
        answer = await client.ask(UPDATE, body=b"maxMessageSize=10")
        assert (answer.code, "cannot read" in (answer.remark or "")) == (1, True)
        assert (await settings(client))["maxMessageSize"] == "4194304"
    finally:
        await house.close_clients()
        await broker.stop()


@in_loop
async def test_a_changed_permission_holds_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        before = house.broker.topics.data_version
        await client.ok(UPDATE, body=b"brokerPermission=4")
        assert (await client.send()).code == 16
        assert house.broker.topics.data_version != before  # name servers take the topics anew


@in_loop
async def test_runtime_figures_that_tools_cannot_do_without(tmp_path: Path) -> None:
    """The keys of 4.9.7, and those that 5.x's clusterList reads."""
    async with running(tmp_path) as house:
        table = (await house.client().json(RUNTIME))["table"]
        for pool in ("send", "pull", "query"):
            assert {f"{pool}ThreadPoolQueue{word}" for word in ("Size", "Capacity", "HeadWaitTimeMills")} <= set(table)
        for way in ("Put", "Get"):
            assert {f"msg{way}Total{day}" for day in ("YesterdayMorning", "TodayMorning", "TodayNow")} <= set(table)
        wanted = """
            bootTimestamp brokerActive commitLogDirCapacity commitLogDiskRatio consumeQueueDiskRatio
            dispatchMaxBuffer EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity getMessageEntireTimeMax
            pageCacheLockTimeMills putLatency99 putLatency999 putMessageDistributeTime putMessageEntireTimeMax
            putMessageFailedTimes remainHowManyDataToFlush remainTransientStoreBufferNumbs runtime timerCongestNum
            timerDequeueTps timerEnqueueTps timerOffsetBehind timerReadBehind
        """
        assert set(wanted.split()) <= set(table)
        assert table["putMessageTimesTotal"] == "1"  # never 0: exporters divide by it
        assert table["remainHowManyDataToFlush"] == "0 B"


@in_loop
async def test_no_slave_follows(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent()
        status = await client.json(HA_STATUS)
        assert (status["master"], status["inSyncSlaveNums"]) == (True, 0)
        assert status["masterCommitLogMaxOffset"] == house.broker.store.log.end
