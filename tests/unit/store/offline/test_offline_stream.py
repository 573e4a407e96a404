"""Messages as a stream: out of one store, through bytes, into another."""

from __future__ import annotations

import io
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqctl.errors import StoreError
from mqctl.remoting import fastjson
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.stream import Exported, StreamError, Writer, read
from mqctl.store.offline.topicsfile import list_topics
from mqctl.store.offline.transfer import Selection, append_all, config_of, export, new_message
from mqctl.store.offline.verify import verify
from mqctl.store.properties import KEYS, TAGS
from mqctl.store.record import pack_host
from mqctl.store.store import MessageStore
from tests.unit.store.stores import HOST, Clock, message, new_store, numbered, opened, put_all

# What a store that takes messages in decides by itself.
PLACE = ("queue_offset", "commit_log_offset", "store_timestamp", "store_host", "prepared_transaction_offset")


def no_damage(start: int, end: int, what: str) -> None:
    raise AssertionError(f"{start} to {end}: {what}")


def exported(root: Path, **selection: Any) -> list[Exported]:
    return list(export(StoreFolder(root), Selection(**selection), no_damage))


def streamed(messages: list[Exported]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file)
    for each in messages:
        writer.write(each)
    writer.finish()
    return file.getvalue()


def taken_in(root: Path, data: bytes) -> Counter[tuple[str, int]]:
    counts: Counter[tuple[str, int]] = Counter()
    folder = StoreFolder(root) if root.exists() else None
    store = MessageStore(config_of(folder, root, None), HOST, Clock(5_000_000))
    store.open()
    try:
        append_all(store, read(io.BytesIO(data)), counts)
    finally:
        store.close()
    return counts


def content(each: Exported) -> Exported:
    """Without what belongs to the store it came from."""
    return msgspec.structs.replace(each, **dict.fromkeys(PLACE))


# -- from store to store --------------------------------------------------------------------------------

hosts = st.builds(pack_host, st.sampled_from(["10.1.2.3", "2001:db8::7"]), st.integers(0, 65535))
texts = st.text(st.characters(blacklist_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=8)
properties = st.dictionaries(st.sampled_from([KEYS, TAGS, "a", "é"]), texts, max_size=3)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    text = "\x02".join(f"{name}\x01{value}" for name, value in draw(properties).items())
    return message(
        draw(st.binary(max_size=200)),
        topic=draw(st.sampled_from(["a", "b%c"])),
        queue_id=draw(st.integers(0, 2)),
        properties=text.encode(),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        sys_flag=draw(st.sampled_from([0, 1, 8, 0x301])),
        born_timestamp=draw(st.integers(0, 1 << 41)),
        born_host=draw(hosts),
        reconsume_times=draw(st.integers(0, 16)),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(messages(), max_size=12))
def test_a_round_trip_keeps_all_that_a_producer_sent(sent: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        with opened(first) as store:
            put_all(store, sent)
        with opened(second) as store:
            put_all(store, numbered(2, topic="a"))
        out = exported(first)
        assert [(each.topic, each.queue_id, each.body, each.properties) for each in out] == [
            (each.topic, each.queue_id, each.body, each.properties) for each in sent
        ]
        counts = taken_in(second, streamed(out))
        assert counts == Counter((each.topic, each.queue_id) for each in sent)
        back = exported(second)[2:]
        assert list(map(content, back)) == list(map(content, out))
        assert {each.store_timestamp for each in back} <= {5_000_000}
        assert verify(StoreFolder(second), json.loads).findings == []


def test_an_empty_folder_gets_a_store(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        put_all(store, numbered(3, tags="x"))
    (tmp_path / "b").mkdir()
    store = MessageStore(config_of(None, tmp_path / "b", None), HOST)
    store.open()
    append_all(store, exported(tmp_path / "a"), Counter())
    store.close()
    assert StoreFolder(tmp_path / "b").log.files[0].size == 1 << 30
    assert verify(StoreFolder(tmp_path / "b"), json.loads).findings == []


def test_file_sizes_are_those_of_the_store(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, numbered(12))
    config = config_of(StoreFolder(tmp_path / "s"), tmp_path / "s", tmp_path / "log")
    assert (config.commitlog_file_size, config.queue_file_size) == (1024, 200)
    assert config.commitlog_dir == tmp_path / "log"


# -- which --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        ({}, 8),
        ({"topics": {"t"}}, 6),
        ({"queue_id": 1}, 2),
        ({"start": 2}, 2),
        ({"start": 1, "stop": 3}, 4),
        ({"since": 2_000_000}, 4),
        ({"until": 2_000_000}, 4),
        ({"topics": {"none"}}, 0),
    ],
)
def test_selections(tmp_path: Path, selection: dict[str, Any], count: int) -> None:
    clock = Clock(1_000_000)
    with opened(tmp_path / "s", clock) as store:
        put_all(store, numbered(4))
        clock.now_ms = 2_000_000
        put_all(store, [*numbered(2, queue_id=1), *numbered(2, topic="u")])
        put_all(store, [message(sys_flag=0xC)])  # rolled back: nobody ever saw it
    assert len(exported(tmp_path / "s", **selection)) == count


# -- streams that cannot be used ------------------------------------------------------------------------


def one(**changes: Any) -> dict[str, Any]:
    found = {
        "topic": "t",
        "queueId": 0,
        "body": b"x",
        "properties": b"",
        "flag": 0,
        "sysFlag": 0,
        "bornTimestamp": 1,
        "bornHost": ["127.0.0.1", 1],
        "reconsumeTimes": 0,
    }
    return {**found, **changes}


def packed(*objects: Any) -> bytes:
    return b"".join(msgpack.packb(each) for each in objects)


HEAD = {"format": "mqctl-messages", "version": 1}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "no stream of messages"),
        (b"hello", "no stream of messages"),
        (packed([1]), "no stream of messages"),
        (packed({**HEAD, "version": 2}), "version 2"),
        (packed(HEAD), "cut off after 0"),
        (packed(HEAD, one()), "cut off after 1"),
        (packed(HEAD, one(), {"end": 2}), "says it has 2 messages, it had 1"),
        (packed(HEAD, one())[:-3], "cut off after 0"),
        (packed(HEAD, one(topic="")), "object 1 of the stream is no message"),
        (packed(HEAD, one(topic=7)), "object 1 of the stream is no message"),
        (packed(HEAD, one(queueId=-1)), "object 1 of the stream is no message"),
        (packed(HEAD, one(flag=1 << 40)), "object 1 of the stream is no message"),
        (packed(HEAD, one(properties=b"x" * 40_000)), "object 1 of the stream is no message"),
        (packed(HEAD) + b"\xc1", "object 2 of the stream cannot be read"),
    ],
)
def test_what_is_no_stream(data: bytes, complaint: str) -> None:
    with pytest.raises(StreamError, match=complaint):
        list(read(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"topic": "a/b"}, "the topic b'a/b' cannot be one"),
        ({"topic": "é" * 100}, "200 bytes"),
        ({"bornHost": ["somewhere", 1]}, "bornHost"),
    ],
)
def test_what_no_broker_would_take(changes: dict[str, Any], complaint: str) -> None:
    [found] = read(io.BytesIO(packed(HEAD, one(**changes), {"end": 1})))
    with pytest.raises(StreamError, match=complaint):
        new_message(found, 0, ())


def test_unknown_members_are_ignored() -> None:
    assert len(list(read(io.BytesIO(packed(HEAD, one(more=1), {"end": 1}))))) == 1


def test_what_came_before_an_error_stays(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    counts: Counter[tuple[str, int]] = Counter()
    with pytest.raises(StreamError):
        append_all(store, read(io.BytesIO(packed(HEAD, one(), one()))), counts)
    store.close()
    assert counts == {("t", 0): 2}
    assert len(exported(tmp_path / "s")) == 2


def test_a_message_too_large_for_the_log(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    with pytest.raises(StoreError, match="does not fit into a file of 1024"):
        append_all(store, read(io.BytesIO(packed(HEAD, one(), one(body=bytes(2000)), {"end": 2}))), Counter())
    store.close()
    assert len(exported(tmp_path / "s")) == 1


# -- topics.json ----------------------------------------------------------------------------------------


def test_topics_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "config" / "topics.json"
    file.parent.mkdir()
    file.write_text('{"dataVersion":{"counter":7,"stateVersion":1},"topicConfigTable":{"a":{"readQueueNums":2,"x":1}}}')
    added = list_topics(tmp_path, {"a": 4, "b": 3, "SCHEDULE_TOPIC_XXXX": 5}, fastjson.loads, fastjson.dumps_pretty)
    assert added == ["b"]
    content = json.loads(file.read_bytes())
    assert content["topicConfigTable"]["a"] == {"readQueueNums": 4, "x": 1}
    assert content["topicConfigTable"]["b"]["writeQueueNums"] == 3
    assert set(content["topicConfigTable"]) == {"a", "b"}
    assert (content["dataVersion"]["counter"], content["dataVersion"]["stateVersion"]) == (8, 1)
    assert list_topics(tmp_path, {"a": 1, "b": 1}, fastjson.loads, fastjson.dumps_pretty) == []
    assert json.loads(file.read_bytes()) == content


def test_a_topics_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config" / "topics.json"
    file.parent.mkdir()
    file.write_text("[1]")
    with pytest.raises(StoreError, match=r"topics\.json"):
        list_topics(tmp_path, {"a": 1}, fastjson.loads, fastjson.dumps_pretty)
    assert file.read_text() == "[1]"
