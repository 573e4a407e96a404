"""Routes: asked once, refreshed, kept when nobody answers."""

from __future__ import annotations

import asyncio

import pytest

from mqctl.client.routes import Routes
from mqctl.errors import ConnectionFailed, MqError, NotFound
from mqctl.remoting.bodies import BrokerData, TopicRouteData
from tests.aio import in_loop


class Lookup:
    """Answers from a table, when it is allowed to."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRouteData | MqError] = {}
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, topic: str) -> TopicRouteData:
        self.asked.append(topic)
        await self.gate.wait()
        answer = self.routes.get(topic, NotFound(topic))
        if isinstance(answer, MqError):
            raise answer
        return answer


def route(**brokers: str) -> TopicRouteData:
    datas = [BrokerData(broker_name=name, broker_addrs={0: address}) for name, address in brokers.items()]
    return TopicRouteData(broker_datas=datas)


@in_loop
async def test_callers_share_one_question_and_the_answer_is_kept() -> None:
    lookup = Lookup()
    lookup.routes["t"] = route(a="a:1")
    lookup.gate.clear()
    routes = Routes(lookup)
    waiting = [asyncio.create_task(routes.find("t")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    lookup.gate.set()
    assert [await task for task in waiting[1:]] == [lookup.routes["t"]] * 2
    await routes.find("t")
    assert lookup.asked == ["t"]
    assert routes.master("a") == "a:1"


@in_loop
async def test_listeners_hear_of_changes_only() -> None:
    lookup = Lookup()
    routes = Routes(lookup)
    heard: list[str] = []
    routes.on_change.append(lambda topic, new: heard.append(topic))
    with pytest.raises(NotFound):
        await routes.find("t")
    lookup.routes["t"] = route(a="a:1", b="b:1")
    await routes.refresh_all()
    await routes.refresh_all()
    assert heard == ["t"]
    lookup.routes["t"] = route(a="a:2")
    await routes.refresh_all()
    assert heard == ["t", "t"]
    assert routes.brokers == {"a": {0: "a:2"}}, "b is in no route any more"
    routes.forget("t")
    assert (routes.brokers, routes.known("t")) == ({}, None)


@pytest.mark.parametrize("trouble", [ConnectionFailed("gone"), NotFound("t")])
@in_loop
async def test_a_known_route_outlives_name_servers_and_restarts(trouble: MqError) -> None:
    lookup = Lookup()
    lookup.routes["t"] = route(a="a:1")
    routes = Routes(lookup)
    await routes.find("t")
    lookup.routes["t"] = trouble
    await routes.refresh_all()
    assert routes.master("a") == "a:1"
    assert await routes.find("t") == route(a="a:1")


@in_loop
async def test_the_newest_answer_says_where_a_broker_is() -> None:
    lookup = Lookup()
    lookup.routes = {"kept": route(a="a:1"), "gone": route(a="a:1")}
    routes = Routes(lookup)
    for topic in ("kept", "gone"):
        await routes.find(topic)
    lookup.routes = {"kept": route(a="a:2")}  # the broker is elsewhere, and the other topic nowhere
    await routes.refresh_all()
    assert routes.master("a") == "a:2"
    assert routes.known("gone") is not None
