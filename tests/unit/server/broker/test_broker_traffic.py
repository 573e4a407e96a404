"""What is counted per topic and group, over the last minute, hour and day."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.server.broker.series import DAY, HOUR, MINUTE, Series
from mqctl.server.broker.traffic import Traffic
from mqctl.server.broker.writetimes import CLASS_NAMES, WriteTimes
from tests.aio import in_loop
from tests.unit.server.broker.harness import Client, serving

VIEW = 315


class Sampled:
    """A series that is looked at every ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.series = Series(self.now)

    def pass_time(self, seconds: int, per_second: int) -> None:
        for _ in range(seconds // 10):
            self.now += 10
            self.series.add(10 * per_second, 10)
            self.series.sample(self.now)

    def sums(self) -> tuple[int, int, int]:
        minute, hour, day = (self.series.over(window, self.now).sum for window in (MINUTE, HOUR, DAY))
        return minute, hour, day


def test_a_young_series_has_all_it_counted_in_every_window() -> None:
    it = Sampled()
    it.series.add(7, 2)
    assert it.sums() == (7, 7, 7)
    minute = it.series.over(MINUTE, it.now)
    assert (minute.tps, minute.avgpt) == (0.7, 3.5)  # as if ten seconds had passed


def test_windows_forget_at_their_own_pace() -> None:
    it = Sampled()
    it.pass_time(3600, per_second=1)
    it.pass_time(600, per_second=100)
    it.pass_time(60, per_second=1)
    assert it.sums() == (60, 2990 + 60_000 + 60, 3600 + 60_000 + 60)
    assert it.series.over(MINUTE, it.now).tps == 1.0
    assert it.series.over(MINUTE, it.now).avgpt == 1.0
    it.pass_time(2 * 3600, per_second=0)
    assert it.sums()[:2] == (0, 0)
    assert it.sums()[2] == 63_660


def test_a_day_without_anything_is_noticed() -> None:
    it = Sampled()
    it.pass_time(10, per_second=1)
    assert not it.series.is_idle
    for _ in range(25 * 360):
        it.now += 10
        it.series.sample(it.now)
    assert it.series.is_idle


@in_loop
async def test_series_that_nobody_uses_are_dropped() -> None:
    now = 0.0
    traffic = Traffic("cluster", lambda: now)
    traffic.pulled("t", "g", 0, 5, 500)
    assert traffic.view("GROUP_GET_NUMS", "t@g") is not None
    for _ in range(26):
        now += 3600
        await traffic.sample()
    assert traffic.view("GROUP_GET_NUMS", "t@g") is None


@in_loop
async def test_a_deleted_topic_takes_its_series_along() -> None:
    traffic = Traffic("t")
    for topic in ("t", "t2"):
        traffic.pulled(topic, "g", 0, 5, 500)
        traffic.sent_back(topic, "g")
    traffic.forget("t")
    assert traffic.view("GROUP_GET_NUMS", "t@g") is None
    assert traffic.view("QUEUE_GET_SIZE", "t@0@g") is None
    assert traffic.view("SNDBCK_PUT_NUMS", "t@g") is None
    assert traffic.view("GROUP_GET_NUMS", "t2@g") is not None
    assert traffic.view("BROKER_GET_NUMS", "t") is not None, "the cluster has that name too"


# -- over the wire --------------------------------------------------------------------------------------


async def sums(client: Client, name: str, key: str) -> set[int]:
    """What the windows say, which is the same in all of them when all of it just happened."""
    data = await client.json(VIEW, {"statsName": name, "statsKey": key})
    assert sorted(data) == ["statsDay", "statsHour", "statsMinute"]
    return {window["sum"] for window in data.values()}


@in_loop
async def test_sends_and_pulls_are_counted_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for _ in range(3):
            await client.sent(b"x" * 100)
        pulled = await client.pull()
        assert len(pulled.messages) == 3
        size = house.broker.store.log.end
        cluster = house.broker.config.broker_cluster_name
        for name, key, wanted in (
            ("TOPIC_PUT_NUMS", "t", 3),
            ("TOPIC_PUT_SIZE", "t", size),
            ("QUEUE_PUT_NUMS", "t@0", 3),
            ("QUEUE_PUT_SIZE", "t@0", size),
            ("BROKER_PUT_NUMS", cluster, 3),
            ("GROUP_GET_NUMS", "t@g", 3),
            ("GROUP_GET_SIZE", "t@g", size),
            ("QUEUE_GET_NUMS", "t@0@g", 3),
            ("BROKER_GET_NUMS", cluster, 3),
        ):
            assert await sums(client, name, key) == {wanted}, name
        size_of_topic = await client.json(VIEW, {"statsName": "TOPIC_PUT_SIZE", "statsKey": "t"})
        assert size_of_topic["statsMinute"]["avgpt"] == size / 3


@in_loop
async def test_what_is_sent_back_is_counted_for_its_first_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await client.ok(36, {"offset": 0, "group": "g", "delayLevel": 1})
        assert await sums(client, "SNDBCK_PUT_NUMS", "t@g") == {1}


@pytest.mark.parametrize(
    ("name", "key"), [("TOPIC_PUT_NUMS", "t"), ("NO_SUCH_NAME", "t"), ("", ""), ("GROUP_GET_NUMS", "t@g")]
)
@in_loop
async def test_what_was_never_counted(tmp_path: Path, name: str, key: str) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ask(VIEW, {"statsName": name, "statsKey": key})
        assert answer.code == 1
        assert "not exist" in (answer.remark or "")
        assert (await client.ask(VIEW, {"statsName": name})).code == 1


# -- how long writes take -------------------------------------------------------------------------------


def test_the_last_minute_of_write_times() -> None:
    times = WriteTimes()
    times.sample(0.0)
    times.add(98, 0.0004)
    times.add(1, 0.010)
    times.add(1, 12.0)
    assert all(part.endswith(":0") for part in times.distribution().split())
    times.sample(59.0)
    assert times.percentile_ms(0.99) == 0.0
    times.sample(60.0)
    found = dict(part.rsplit(":", 1) for part in times.distribution().split())
    assert list(found) == list(CLASS_NAMES)
    assert {name: count for name, count in found.items() if count != "0"} == {
        "[<=0ms]": "98",
        "[10~50ms]": "1",
        "[10s~]": "1",
    }
    assert times.percentile_ms(0.5) == pytest.approx(0.4, rel=0.25)
    assert times.percentile_ms(0.99) == pytest.approx(10, rel=0.25)
    assert times.percentile_ms(0.999) == pytest.approx(12_000, rel=0.25)
    assert times.longest_ms == 12_000
