"""Registration goes on whatever happens in one round, and tells at once what is gone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mqctl import testing
from mqctl.client.admin import Admin
from mqctl.errors import NotFound
from mqctl.remoting.bodies import TopicConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.server.broker import register
from mqctl.server.broker.register import Registration
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop, until


def fail_in_round(number: int, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The topics of each round; the one with this number raises what nobody expects."""
    rounds: list[list[str]] = []
    body = Registration._body

    def failing(registration: Registration, topics: Iterable[TopicConfig]) -> bytes:
        listed = list(topics)
        rounds.append([topic.topic_name for topic in listed])
        if len(rounds) == number:
            raise ValueError("a mistake of ours")
        return body(registration, listed)

    monkeypatch.setattr(Registration, "_body", failing)
    return rounds


@in_loop
async def test_a_round_that_fails_is_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(register, "MIN_PERIOD_MS", 1)
    monkeypatch.setattr(register, "MAX_PERIOD_MS", 1)
    rounds = fail_in_round(2, monkeypatch)
    with testing.broker():
        await until(lambda: len(rounds) > 3)
    assert "a mistake of ours" in caplog.text


def test_changes_that_could_not_be_registered_hold_up_none_after_them(
    mq: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = fail_in_round(1, monkeypatch)
    mq.create_topic("first")
    mq.create_topic("second")
    assert [names for names in rounds if names] == [["first"], ["second"]]


@in_loop
async def test_a_deleted_topic_is_gone_from_the_routes_at_once(mq: EmbeddedBroker) -> None:
    mq.create_topic("kept")
    mq.create_topic("t")
    registration = mq._running.registration
    async with Admin(mq.namesrv) as admin:
        await admin.topic_route("t")
        await admin.call(mq.address, Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": "t"}))
        mq._background.run(settled(registration))
        await admin.topic_route("kept")
        with pytest.raises(NotFound):
            await admin.topic_route("t")


async def settled(registration: Registration) -> None:
    await registration.settled()


@pytest.fixture
def mq() -> Iterable[EmbeddedBroker]:
    with testing.broker() as running:
        yield running
