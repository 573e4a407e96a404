"""Where a consumer begins, and the file in which a broadcast consumer keeps its positions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from mqctl.client.offsets import ConsumeFrom, FileOffsets, Start, first_offset, local_offsets_path
from mqctl.client.reading import Reader
from mqctl.remoting.bodies import MessageQueue
from tests.aio import in_loop

QUEUE = MessageQueue("t", "broker-a", 2)
RETRY = MessageQueue("%RETRY%g", "broker-a", 0)
MOMENT = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)

# As a consumer of Apache's client 4.9.7 left it.
JAVA_FILE = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":2,
\t\t\t"topic":"t"
\t\t}:17,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"t"
\t\t}:3
\t}
}"""


class Answers:
    """A queue that ends at 100 and in which 42 is nearest to any time."""

    def __init__(self) -> None:
        self.asked_ms = 0

    async def max_offset(self, queue: MessageQueue) -> int:
        return 100

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        self.asked_ms = time_ms
        return 42


class Stored:
    def __init__(self, position: int | None) -> None:
        self._position = position

    async def load(self, queue: MessageQueue) -> int | None:
        return self._position

    async def save(self, positions: Mapping[MessageQueue, int]) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("queue", "start", "begin"),
    [
        (QUEUE, ConsumeFrom.FIRST, 0),
        (QUEUE, ConsumeFrom.LAST, 100),
        (QUEUE, MOMENT, 42),
        (RETRY, ConsumeFrom.FIRST, 0),
        (RETRY, ConsumeFrom.LAST, 0),
        (RETRY, MOMENT, 100),
    ],
)
@in_loop
async def test_where_a_group_without_a_position_begins(queue: MessageQueue, start: Start, begin: int) -> None:
    answers = Answers()
    reader = cast(Reader, answers)
    assert await first_offset(reader, Stored(None), queue, start) == begin
    assert await first_offset(reader, Stored(7), queue, start) == 7
    assert await first_offset(reader, Stored(0), queue, start) == 0
    if begin == 42:
        assert answers.asked_ms == MOMENT.timestamp() * 1000


@in_loop
async def test_javas_file_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(JAVA_FILE)
    offsets = FileOffsets(path)
    assert await offsets.load(QUEUE) == 17
    assert await offsets.load(MessageQueue("t", "broker-a", 1)) is None
    await offsets.save({QUEUE: 20})
    again = FileOffsets(path)
    assert (await again.load(QUEUE), await again.load(MessageQueue("t", "broker-a", 0))) == (20, 3)


@in_loop
async def test_a_file_that_cannot_be_written_is_no_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    offsets = FileOffsets(tmp_path / "file" / "offsets.json")
    await offsets.save({QUEUE: 1})
    assert "not saved" in caplog.text


def test_the_place_is_javas() -> None:
    expected = Path.home() / ".rocketmq_offsets" / "10.0.0.1@DEFAULT" / "g" / "offsets.json"
    assert local_offsets_path(None, "10.0.0.1@DEFAULT", "g") == expected
