"""Binding RocketMQ's keys to typed structs, writing them back, and changing them from afar."""

from __future__ import annotations

import enum
import logging
from typing import Annotated

import pytest
from msgspec import Meta, Struct, field

from mqctl.config import bind, dump, parse_properties, update_over_wire
from mqctl.errors import ConfigError, RequestFailed
from mqctl.remoting.codes import ResponseCode


class Role(enum.Enum):
    ASYNC_MASTER = "ASYNC_MASTER"
    SLAVE = "SLAVE"


class Sample(Struct, frozen=True, kw_only=True, rename="camel"):
    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 10911
    broker_ip1: str = field(name="brokerIP1", default="127.0.0.1")
    slave_read_enable: bool = False
    broker_role: Role = Role.ASYNC_MASTER
    disk_ratio: float = 0.75
    access_key: str | None = None
    max_size: int | None = None


def test_absent_keys_keep_their_defaults() -> None:
    assert bind(Sample, {}, "nowhere") == (Sample(), [])


def test_every_type_is_read_from_text() -> None:
    text = (
        "listenPort= 20911 \nbrokerIP1=10.0.0.1\nslaveReadEnable=TRUE\nbrokerRole=SLAVE\n"
        "diskRatio=0.5\naccessKey=null\nmaxSize=7"
    )
    config, warnings = bind(Sample, parse_properties(text), "broker.conf")
    assert warnings == []
    assert config == Sample(
        listen_port=20911,
        broker_ip1="10.0.0.1",
        slave_read_enable=True,
        broker_role=Role.SLAVE,
        disk_ratio=0.5,
        access_key="null",
        max_size=7,
    )


def test_empty_text_is_none_where_none_is_allowed() -> None:
    config, _ = bind(Sample, {"accessKey": "", "maxSize": ""}, "broker.conf")
    assert (config.access_key, config.max_size) == (None, None)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("listenPort", "abc", "expected a whole number from 0 to 65535"),
        ("listenPort", "70000", "expected a whole number from 0 to 65535"),
        ("listenPort", "1e3", "expected a whole number"),
        ("listenPort", "٣", "expected a whole number"),
        ("listenPort", "", "expected a whole number"),
        ("maxSize", "9" * 10_000, "expected a whole number"),
        ("slaveReadEnable", "1", "expected true or false"),
        ("slaveReadEnable", "yes", "expected true or false"),
        ("brokerRole", "MASTER", "expected one of ASYNC_MASTER, SLAVE"),
        ("diskRatio", "half", "expected a number"),
    ],
)
def test_wrong_value_says_key_value_and_what_is_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bind(Sample, {key: value}, "broker.conf")
    assert caught.value.message.startswith(f"broker.conf: {key}='{value[:10]}")
    assert expected in caught.value.message
    assert len(caught.value.message) < 500


def test_unknown_key_names_the_nearest() -> None:
    _, warnings = bind(Sample, {"listenport": "1", "zzz": "2"}, "broker.conf")
    assert warnings == [
        "broker.conf: unknown key listenport; did you mean listenPort?",
        "broker.conf: unknown key zzz",
    ]


class Strict(Struct):
    name: str
    size: int = 1


def test_required_key_must_be_there() -> None:
    with pytest.raises(ConfigError, match="c: name must be set"):
        bind(Strict, {"size": "2"}, "c")


def test_dump_binds_back() -> None:
    config = Sample(slave_read_enable=True, broker_role=Role.SLAVE, broker_ip1=" ü\\")
    text = dump(config)
    assert text.splitlines()[0] == "listenPort=10911"
    assert "accessKey" not in text  # None is absent
    assert bind(Sample, parse_properties(text), "dump") == (config, [])


# -- over the wire --------------------------------------------------------------------------------------

PROTECTED = frozenset({"brokerIP1", "storePathRootDir"})


def test_update_returns_a_changed_copy() -> None:
    before = Sample()
    after = update_over_wire(before, {"slaveReadEnable": "true", "diskRatio": "0.9"}, PROTECTED)
    assert (after.slave_read_enable, after.disk_ratio) == (True, 0.9)
    assert before == Sample()


@pytest.mark.parametrize("key", sorted(PROTECTED))
def test_protected_keys_are_refused_with_all_that_came_along(key: str) -> None:
    with pytest.raises(RequestFailed, match=key) as caught:
        update_over_wire(Sample(), {"diskRatio": "0.9", key: "x"}, PROTECTED)
    assert caught.value.code == ResponseCode.NO_PERMISSION


def test_unknown_keys_are_ignored_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert update_over_wire(Sample(), {"diskRation": "0.9"}, PROTECTED) == Sample()
    assert "unknown key diskRation; did you mean diskRatio?, ignored" in caplog.text


def test_wrong_value_over_the_wire_is_an_error_answer() -> None:
    with pytest.raises(RequestFailed, match="diskRatio='x': expected a number") as caught:
        update_over_wire(Sample(), {"diskRatio": "x", "slaveReadEnable": "true"}, PROTECTED)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
