"""SQL92 filters: asked for, refused, pulled with, waited with, and kept in config/consumerFilter.json."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.bodies import SubscriptionData
from mqctl.server.broker.filterdata import FilterTable
from mqctl.store.fetch import SCAN_ENTRIES
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import SUSPEND, Client, broker_config, heartbeat, serving, subscription
from tests.unit.store.stores import Clock

FILTERING = {"enable_property_filter": True}
CHECK = 46
PARSE_FAILED, NOT_LATEST, DATA_NOT_EXIST = 23, 25, 27


def sql(expression: str, topic: str = "t", version: int = 1) -> dict[str, Any]:
    return {**subscription(topic, version=version), "subString": expression, "expressionType": "SQL92"}


def check_body(subscribed: dict[str, Any] | None) -> bytes:
    return json.dumps({"clientId": "c", "group": "g", "subscriptionData": subscribed}).encode()


async def send_numbers(client: Client, *numbers: int) -> None:
    for number in numbers:
        await client.sent(b"%d" % number, properties={"n": str(number)})


# -- asking for it ------------------------------------------------------------------------------------------


@in_loop
async def test_a_client_asks_before_it_subscribes(tmp_path: Path) -> None:
    async with serving(tmp_path, **FILTERING) as (_, client):
        for subscribed in (None, sql("n > 5"), subscription("t", "a || b")):
            await client.ok(CHECK, body=check_body(subscribed))
        answer = await client.ask(CHECK, body=check_body(sql("n LIKE 'x'")))
        assert answer.code == PARSE_FAILED
        assert answer.remark == "the filter is wrong at character 3, \"LIKE 'x'\": this cannot stand here"
        answer = await client.ask(CHECK, body=check_body({**sql("n > 5"), "expressionType": "XPATH"}))
        assert (answer.code, answer.remark) == (
            PARSE_FAILED,
            "this broker filters by tags and by SQL92, not by 'XPATH'",
        )


@in_loop
async def test_without_filters_it_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        refusal = (1, "this broker does not filter by SQL92 (enablePropertyFilter is off)")
        answer = await client.ask(CHECK, body=check_body(sql("n > 5")))
        assert (answer.code, answer.remark) == refusal
        pulled = await client.pull(tags="n > 5", expressionType="SQL92")
        assert (pulled.code, pulled.remark) == refusal
        await client.ok(34, body=heartbeat("c", ["g"], subscriptions=[sql("n > 5")]))
        pulled = await client.pull(sysFlag=0, subVersion=1)
        assert (pulled.code, pulled.remark) == refusal


# -- pulling --------------------------------------------------------------------------------------------------


@in_loop
async def test_a_pull_with_a_filter_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, **FILTERING) as (_, client):
        await send_numbers(client, *range(10))
        pulled = await client.pull(2, tags="n BETWEEN 1 AND 5", expressionType="SQL92")
        assert (pulled.code, pulled.next_offset, pulled.bodies) == (0, 10, [b"2", b"3", b"4", b"5"])
        pulled = await client.pull(tags="n >", expressionType="SQL92")
        assert (pulled.code, pulled.remark) == (PARSE_FAILED, "the filter is wrong at its end: something is missing")
        assert (await client.pull(tags="", expressionType="SQL92")).code == PARSE_FAILED
        assert (await client.pull(tags="n > 5", expressionType="class")).code == PARSE_FAILED


@in_loop
async def test_a_pull_with_the_filter_of_the_heartbeat(tmp_path: Path) -> None:
    async with serving(tmp_path, **FILTERING) as (_, client):
        await send_numbers(client, *range(10))
        await client.ok(34, body=heartbeat("c", ["g"], subscriptions=[sql("n > 6")]))
        pulled = await client.pull(sysFlag=0, subVersion=1, expressionType="SQL92")
        assert pulled.bodies == [b"7", b"8", b"9"]
        # A newer filter is on its way. Unlike tags, clients do not check it, so the old one must not be used.
        pulled = await client.pull(sysFlag=0, subVersion=2, expressionType="SQL92")
        assert pulled.code == NOT_LATEST
        assert (await client.pull(sysFlag=0, subVersion=2)).code == NOT_LATEST
        await client.ok(34, body=heartbeat("c", ["g"], subscriptions=[sql("n = 0", version=2)]))
        assert (await client.pull(sysFlag=0, subVersion=2, expressionType="SQL92")).bodies == [b"0"]
        # From a filter to tags: all may come until the heartbeat does.
        assert len((await client.pull(sysFlag=0, subVersion=3, expressionType="TAG")).bodies) == 10


@in_loop
async def test_a_heartbeat_with_a_wrong_filter_stops_that_topic_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "other", **FILTERING) as (_, client):
        await client.sent(b"x", topic="other")
        await client.ok(34, body=heartbeat("c", ["g"], subscriptions=[sql("n >"), subscription("other")]))
        pulled = await client.pull(sysFlag=0, subVersion=1, expressionType="SQL92")
        assert (pulled.code, pulled.remark) == (DATA_NOT_EXIST, "the filter is wrong at its end: something is missing")
        assert (await client.pull(topic="other", sysFlag=0, subVersion=1)).bodies == [b"x"]


@in_loop
async def test_a_waiting_pull_wakes_for_a_match_only(tmp_path: Path) -> None:
    async with serving(tmp_path, **FILTERING) as (house, client):
        await send_numbers(client, 1)
        waiting = asyncio.create_task(client.pull(1, flags=SUSPEND, tags="n = 7", expressionType="SQL92"))
        await until(lambda: house.parked)
        other = house.client("other")
        await send_numbers(other, 5, 6)
        assert house.parked
        await send_numbers(other, 7)
        pulled = await waiting
        assert (pulled.code, pulled.next_offset, pulled.bodies) == (0, 4, [b"7"])


@in_loop
async def test_a_rare_match_is_found_pull_by_pull(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_consume_queue=20 * 2000, **FILTERING) as (_, client):
        await asyncio.gather(*(client.sent(properties={"n": "1"}) for _ in range(2 * SCAN_ENTRIES)))
        await send_numbers(client, 7)
        steps = []
        queue_offset = 0
        while not steps or not steps[-1].messages:
            steps.append(await client.pull(queue_offset, flags=SUSPEND, tags="n = 7", expressionType="SQL92"))
            queue_offset = steps[-1].next_offset
        assert [(step.code, step.next_offset) for step in steps] == [
            (20, SCAN_ENTRIES),
            (20, 2 * SCAN_ENTRIES),
            (0, 2 * SCAN_ENTRIES + 1),
        ]


@in_loop
async def test_a_cold_pull_with_a_filter(tmp_path: Path) -> None:
    async with serving(tmp_path, access_message_in_memory_max_ratio=0, **FILTERING) as (_, client):
        await send_numbers(client, *range(30))
        pulled = await client.pull(tags="n >= 20 OR n = 3", expressionType="SQL92")
        assert pulled.bodies == [b"3", *(b"%d" % number for number in range(20, 27))], "as many as come from the disk"
        assert pulled.next_offset == 27


# -- the file ---------------------------------------------------------------------------------------------------

# As Apache's broker 4.9.7 wrote it.
APACHE = """{
	"filterDataByTopic":{
		"orders":{
			"groupFilterData":{
				"group-1":{
					"bloomFilterData":{
						"bitNum":112,
						"bitPos":[97,27,69]
					},
					"bornTime":1795005013973,
					"clientVersion":1700000000123,
					"consumerGroup":"group-1",
					"dead":true,
					"deadTime":1795005014040,
					"expression":"a > 5",
					"expressionType":"SQL92",
					"topic":"orders"
				}
			},
			"topic":"orders"
		}
	}
}"""
BORN_MS, VERSION = 1795005013973, 1700000000123
DAY_MS = 24 * 3600 * 1000


def wanted(expression: str, version: int, topic: str = "orders") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version)


def table(root: Path, clock: Clock, **settings: Any) -> FilterTable:
    return FilterTable(broker_config(root, **{**FILTERING, **settings}), clock)


async def stored(root: Path, filters: FilterTable) -> Any:
    await filters.save_last()
    return json.loads((root / "config" / "consumerFilter.json").read_text())["filterDataByTopic"]


@in_loop
async def test_the_file_is_apaches(tmp_path: Path) -> None:
    clock = Clock(BORN_MS)
    filters = table(tmp_path, clock)
    filters.register("group-1", [wanted("a > 5", VERSION), SubscriptionData(topic="%RETRY%group-1", sub_string="*")])
    clock.now_ms = 1795005014040
    filters.unregister("group-1")
    assert await stored(tmp_path, filters) == json.loads(APACHE)["filterDataByTopic"]


@in_loop
async def test_apaches_file_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerFilter.json"
    path.parent.mkdir()
    path.write_text(APACHE)
    filters = table(tmp_path, Clock(BORN_MS + 1000))
    filters.load()
    assert await stored(tmp_path, filters) == json.loads(APACHE)["filterDataByTopic"]
    filters.register("group-1", [wanted("a > 5", VERSION)])
    found = filters.get("orders", "group-1")
    assert found is not None and (found.dead, found.dead_time, found.born_time) == (False, 0, BORN_MS)


@in_loop
async def test_who_was_connected_at_the_last_stop_is_gone_at_the_start(tmp_path: Path) -> None:
    clock = Clock(BORN_MS)
    before = table(tmp_path, clock)
    before.register("g", [wanted("a > 5", 1)])
    await before.save_last()
    clock.now_ms += 100_000
    filters = table(tmp_path, clock)
    filters.load()
    found = filters.get("orders", "g")
    assert found is not None and (found.dead, found.dead_time) == (True, BORN_MS + 70_000)
    clock.now_ms = found.dead_time + DAY_MS - 1
    assert "orders" in await stored(tmp_path, filters)
    clock.now_ms += 1
    assert await stored(tmp_path, filters) == {}


@in_loop
async def test_the_newest_filter_counts(tmp_path: Path) -> None:
    filters = table(tmp_path, Clock(BORN_MS))
    filters.register("g", [wanted("a > 5", 5), wanted("b = 1", 5, "other")])
    filters.register("g", [wanted("a > 4", 4), wanted("b = 1", 6, "other")])
    kept, other = filters.get("orders", "g"), filters.get("other", "g")
    assert kept is not None and (kept.expression, kept.client_version) == ("a > 5", 5)
    assert other is not None and (other.client_version, other.dead) == (6, False)
    filters.register("g", [wanted("a > 6", 6)])
    kept, other = filters.get("orders", "g"), filters.get("other", "g")
    assert kept is not None and kept.expression == "a > 6"
    assert other is not None and other.dead, "no longer subscribed"
    filters.register("g", [wanted("a >", 7)])
    assert filters.get("orders", "g") is None, "a wrong one replaces it by nothing"


@pytest.mark.parametrize("content", ["", "{}", '{"filterDataByTopic":null}', '{"filterDataByTopic":{"t":null}}'])
@in_loop
async def test_a_file_without_filters(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config" / "consumerFilter.json"
    path.parent.mkdir()
    path.write_text(content)
    async with serving(tmp_path, **FILTERING) as (_, client):
        await client.ok(34, body=heartbeat("c", ["g"], subscriptions=[sql("n > 5")]))
    assert json.loads(path.read_text())["filterDataByTopic"]["t"]["groupFilterData"]["g"]["dead"] is True
