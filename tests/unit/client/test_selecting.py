"""Which messages of many, what is kept of one that is sent again, and when it may leave."""

from __future__ import annotations

import re
import time

import pytest
from msgspec.structs import replace

from mqctl.client.admin.copying import copy_of
from mqctl.client.admin.deadletters import copy_id
from mqctl.client.admin.replaying import Pace
from mqctl.client.admin.selecting import Selection
from mqctl.client.admin.traces import decode_traces
from mqctl.filter.sql import compile_filter
from mqctl.remoting.compression import Compression, compress
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.unique_id import born_time_ms
from mqctl.store.properties import join_properties, parse_properties
from mqctl.store.record import SYS_BORN_HOST_V6, SYS_TRANSACTION_COMMIT

STORED = 1_700_000_000_000


def message(body: bytes = b"body", sys_flag: int = 0, **properties: str) -> ReceivedMessage:
    return ReceivedMessage(
        topic="%DLQ%g",
        stored_body=body,
        stored_properties=join_properties(
            {"UNIQ_KEY": "AB" * 16, "KEYS": "k1 k2", "TAGS": "t", "RETRY_TOPIC": "orders", **properties}
        ),
        flag=7,
        sys_flag=sys_flag,
        queue_id=0,
        queue_offset=5,
        phys_offset=1234,
        size_bytes=100,
        body_crc=0,
        born_timestamp=STORED,
        born_host=("127.0.0.1", 1),
        store_timestamp=STORED,
        store_host=("127.0.0.1", 10911),
        reconsume_times=3,
        prepared_offset=0,
    )


@pytest.mark.parametrize(
    ("selection", "fits"),
    [
        (Selection(), True),
        (Selection(topic="orders", tags={"t"}, key="k2", min_tries=3, max_tries=3), True),
        (Selection(topic="%DLQ%g"), False),
        (Selection(tags={"other"}), False),
        (Selection(key="k"), False),
        (Selection(ids={"AB" * 16}), True),
        (Selection(ids={"CD" * 16}), False),
        (Selection(min_tries=4), False),
        (Selection(max_tries=2), False),
        (Selection(sql=compile_filter("n > 4")), True),
        (Selection(sql=compile_filter("n > 5")), False),
        (Selection(body=re.compile(b"o.y")), True),
        (Selection(body=re.compile(b"^ody")), False),
        (Selection(since=STORED, until=STORED + 1), True),
        (Selection(since=STORED + 1), False),
        (Selection(until=STORED), False),
    ],
)
def test_everything_must_fit(selection: Selection, fits: bool) -> None:
    assert selection.fits(message(n="5")) is fits


def test_a_copy_has_what_belongs_to_the_message() -> None:
    """And nothing of how it was delivered: delays, attempts, transactions, who waits for an answer."""
    body, bits = compress(b"x" * 5000, Compression.ZLIB)
    of_delivery = {"DELAY": "3", "TRAN_MSG": "true", "PGROUP": "p", "CORRELATION_ID": "c", "TIMER_DELIVER_MS": "1"}
    source = message(body, bits | SYS_BORN_HOST_V6 | SYS_TRANSACTION_COMMIT, own="1", **of_delivery)
    copy = copy_of(source, "orders", "EF" * 16, {"more": "2"})
    assert parse_properties(copy.properties) == {
        "KEYS": "k1 k2", "TAGS": "t", "own": "1", "more": "2", "WAIT": "true", "UNIQ_KEY": "EF" * 16,
    }  # fmt: skip
    assert (copy.topic, copy.body, copy.flag, copy.sys_flag) == ("orders", body, 7, bits)


def test_the_id_of_a_copy_comes_from_the_place_of_its_letter() -> None:
    letter = message()
    assert copy_id(letter) == copy_id(replace(letter, stored_properties="", _properties=None, stored_body=b"z"))
    assert copy_id(letter) != copy_id(replace(letter, phys_offset=1235))
    assert len(copy_id(letter)) == 32


@pytest.mark.parametrize("days_ago", [0, 1, 9, 27])
def test_tools_look_for_a_copy_from_before_it_was_sent(days_ago: int) -> None:
    now = int(time.time() * 1000)
    letter = replace(message(), store_timestamp=now - days_ago * 86_400_000)
    assert born_time_ms(copy_id(letter), now) <= now


def test_pace() -> None:
    now = 100.0
    pace = Pace(2.0, None, lambda: now)
    assert pace.wait_s(STORED) == 0
    assert pace.wait_s(STORED + 3000) == pytest.approx(1.5)
    now = 101.0
    assert pace.wait_s(STORED + 3000) == pytest.approx(0.5)
    assert pace.wait_s(STORED + 1000) == 0  # late already
    limited = Pace(None, 10, lambda: now)
    assert [round(limited.wait_s(STORED), 3) for _ in range(3)] == [0, 0.1, 0.2]


def test_traces_of_all_releases() -> None:
    def lines(*texts: str) -> ReceivedMessage:
        return message("".join(text.replace("|", "\x01") + "\x02" for text in texts).encode())

    old = lines("Pub|10|r|pg|t|ID|tag|k|h|4|7|0|true", "Pub|10|r|pg|t|OTHER|tag|k|h|4|7|0|true", "nonsense", "Pub|1")
    new = lines(
        "SubBefore|20|r|cg|REQ|ID|2|k|host", "SubAfter|REQ|ID|30|false|k|4|50|cg", "SubBefore|40|r|cg|R2|ID|0|k"
    )
    sent, consumed, waiting = decode_traces([new, old], "ID")
    assert (sent.kind, sent.group, sent.timestamp, sent.cost_ms, sent.status) == ("Pub", "pg", 10, 7, "success")
    assert (consumed.kind, consumed.client_host, consumed.cost_ms, consumed.status) == ("Sub", "host", 30, "failed")
    assert (consumed.retry_times, waiting.status, waiting.cost_ms) == (2, "not finished", None)
