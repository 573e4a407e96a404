"""What mqadmin prints and what mqctl prints as JSON, brought to the same form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from mqctl.remoting import fastjson
from tests.interop.bothtools.running import as_text

# -- in mqadmin's text ----------------------------------------------------------------------------------


def cells(first: str, *places: int) -> Callable[[str], list[list[str]]]:
    """Of the lines that begin with this word, the words at these places, in the order of the lines' text."""

    def find(text: str) -> list[list[str]]:
        lines = [line.split() for line in sorted(text.splitlines())]
        return [[words[place] for place in places] for words in lines if words and words[0] == first]

    return find


def settings(*keys: str, between: str = "=") -> Callable[[str], list[str]]:
    """The values of lines such as `key = value`."""

    def find(text: str) -> list[str]:
        lines = (line.partition(between) for line in text.splitlines())
        known = {key.strip(): value.strip() for key, _, value in lines}
        return [known[key] for key in keys]

    return find


def matches(pattern: str) -> Callable[[str], list[Any]]:
    """The groups of all that match, in the order of their text."""
    return lambda text: sorted(re.findall(pattern, text, re.MULTILINE))


def queues_of_route(text: str) -> list[Any]:
    queues = fastjson.loads(text.encode())["queueDatas"]
    return [[queue[name] for name in ("brokerName", "writeQueueNums", "readQueueNums", "perm")] for queue in queues]


_PRINTED: Final = matches(
    r"^MSGID: (\S+) MessageExt \[brokerName=\S+, queueId=(\d+), .*?queueOffset=(\d+), .* BODY: (.*)$"
)


def printed_messages(text: str) -> list[Any]:
    """Of each message: queue, offset in it, body, its producer's id."""
    return sorted([queue, offset, body, msg_id] for msg_id, queue, offset, body in _PRINTED(text))


# Of each message: topic, tags, keys, queue, offset in it, offset in the log.
shown_messages: Final = matches(
    r"^Topic: +(\S+)\nTags: +\[(\S+)\]\nKeys: +\[(\S+)\]\nQueue ID: +(\d+)\nQueue Offset: +(\d+)\n"
    r"CommitLog Offset: +(\d+)\n"
)


# -- in mqctl's rows ------------------------------------------------------------------------------------


def fields(*names: str, **wanted: Any) -> Callable[[list[Any]], list[list[Any]]]:
    """These fields of the rows that have the values `wanted`, in the order of their text."""

    def find(rows: list[Any]) -> list[list[Any]]:
        fitting = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        return sorted(([row[name] for name in names] for row in fitting), key=as_text)

    return find


def values(*keys: str) -> Callable[[list[Any]], list[str]]:
    """Of rows with a key and a value."""
    return lambda rows: [row["value"] for key in keys for row in rows if row["key"] == key]


def perm_number(text: str) -> int:
    """mqadmin's number for what mqctl calls `rw`."""
    return 4 * ("r" in text) + 2 * ("w" in text)


def routes(rows: Iterable[Any]) -> list[Any]:
    """As `queues_of_route`."""
    return [[row["brokerName"], row["writeQueueNums"], row["readQueueNums"], perm_number(row["perm"])] for row in rows]


messages: Final = fields("queueId", "queueOffset", "body", "msgId")


def shown(rows: Iterable[Any]) -> list[Any]:
    """As `shown_messages`."""
    return [
        [row["topic"], row["tags"], " ".join(row["keys"]), row["queueId"], row["queueOffset"], row["commitLogOffset"]]
        for row in rows
    ]
