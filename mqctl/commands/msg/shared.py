"""What the commands about messages share: a message as a row and as a line, naming one, choosing among many."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import Session, noun
from mqctl.commands.completing import complete_topics
from mqctl.figures import size_text
from mqctl.output import Column, Row, cell_text, visible
from mqctl.times import parse_time, time_text

if TYPE_CHECKING:
    from mqctl.client.admin.selecting import Selection
    from mqctl.remoting.message import ReceivedMessage

app = noun("Send messages, find them, and follow topics.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
TopicOption = Annotated[
    str | None, typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics, help="Of this topic.")
]

# -- a message as a row ---------------------------------------------------------------------------------

MESSAGE: Final = [
    Column("topic"),
    Column("brokerName"),
    Column("queueId"),
    Column("queueOffset"),
    Column("storeTimestamp", show=time_text),
    Column("bornTimestamp", show=time_text),
    Column("msgId"),
    Column("offsetMsgId"),
    Column("tags"),
    Column("keys"),
    Column("reconsumeTimes"),
    Column("body"),
    Column("bodyBase64"),
    Column("properties"),
    Column("bornHost"),
    Column("storeHost"),
    Column("commitLogOffset"),
    Column("storeSize", show=size_text),
    Column("sysFlag"),
    Column("flag"),
]


def message_row(message: ReceivedMessage) -> dict[str, Any]:
    """`body` where it is UTF-8 text, else `bodyBase64`; the other one is null."""
    from mqctl.client.admin.selecting import body_of

    body = body_of(message)
    text = _text(body)
    return {
        "topic": message.topic,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "storeTimestamp": message.store_timestamp,
        "bornTimestamp": message.born_timestamp,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags or None,
        "keys": message.keys,
        "reconsumeTimes": message.reconsume_times,
        "body": text,
        "bodyBase64": None if text is not None else base64.b64encode(body).decode(),
        "properties": message.properties,
        "bornHost": "{}:{}".format(*message.born_host),
        "storeHost": "{}:{}".format(*message.store_host),
        "commitLogOffset": message.phys_offset,
        "storeSize": message.size_bytes,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
    }


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


# -- and as a line --------------------------------------------------------------------------------------

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="TEXT",
        help=r"How to print a message: any names of -o json in braces, such as '{storeTimestamp}\t{keys}\t{body}'.",
    ),
]


def message_line(row: Row) -> str:
    place = f"{row['brokerName']}/{row['queueId']}@{row['queueOffset']}"
    labels = "".join(f" {name}={cell_text(row[name])}" for name in ("tags", "keys") if row[name])
    return f"{time_text(row['storeTimestamp'])} {place}{labels} {_body_text(row)}"


def writer(session: Session, template: str | None) -> Callable[[Row], None]:
    """Writes messages one by one, in the format asked for. A template goes before -o, and prints bodies as they are
    unless a terminal would be driven by them."""
    if template is None:
        return session.stream(MESSAGE, message_line)
    line = _line_of(template)
    shown = visible if session.env.on_terminal else str

    def write(row: Row) -> None:
        session.env.stdout.write(shown(line(row)) + "\n")
        session.env.stdout.flush()

    return write


_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\0": "\0"}


def _line_of(template: str) -> Callable[[Row], str]:
    for escape, char in _ESCAPES.items():
        template = template.replace(escape, char)
    try:
        parts = [(text, name) for text, name, _, _ in string.Formatter().parse(template)]
    except ValueError as error:
        raise typer.BadParameter(f"{template!r} is no format: {error}", param_hint="--format") from None
    known = {column.name for column in MESSAGE}
    for _, name in parts:
        if name is not None and name not in known:
            raise typer.BadParameter(
                f"there is no {{{name}}}; known: {', '.join(sorted(known))}", param_hint="--format"
            )
    return lambda row: "".join(text + ("" if name is None else _value_text(row, name)) for text, name in parts)


def _value_text(row: Row, name: str) -> str:
    if name == "body":
        return _body_text(row)
    return "" if row[name] in (None, [], {}) else cell_text(row[name])


def _body_text(row: Row) -> str:
    return str(row["body"]) if row["body"] is not None else f"base64:{row['bodyBase64']}"


# -- choosing among many --------------------------------------------------------------------------------

TagOption = Annotated[str, typer.Option("--tag", metavar="EXPR", help="Only these tags, such as 'paid || shipped'.")]
SqlOption = Annotated[
    str | None, typer.Option("--sql", metavar="EXPR", help='Only those whose properties fit, such as "price > 10".')
]
MatchOption = Annotated[
    str | None, typer.Option("--match", metavar="REGEX", help="Only those in whose body this is found.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Stored then or later: 2h for two hours ago, or a time.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored before that.")]


def time_option(session: Session, text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def selection_of(
    session: Session,
    *,
    sql: str | None = None,
    match: str | None = None,
    since: str | None = None,
    until: str | None = None,
    **more: Any,
) -> Selection:
    """What the options above say. Raises FilterError."""
    import re

    from mqctl.client.admin.selecting import Selection

    try:
        body = None if match is None else re.compile(match.encode(errors="surrogateescape"))
    except re.error as error:
        raise typer.BadParameter(f"{match!r} is no regular expression: {error}", param_hint="--match") from None
    compiled = None
    if sql is not None:
        from mqctl.filter.sql import compile_filter

        compiled = compile_filter(sql)
    return Selection(
        sql=compiled,
        body=body,
        since=time_option(session, since, "--since"),
        until=time_option(session, until, "--until"),
        **more,
    )


# mqadmin names the broker of a queue apart.
BrokerOption = Annotated[str | None, typer.Option("--broker", metavar="NAME", hidden=True)]


def place_of(text: str, broker_name: str | None = None) -> tuple[str | None, int]:
    """`broker-a:3`, or the number alone for the queues so numbered at `broker_name`, or at all brokers."""
    name, _, number = text.rpartition(":")
    if not number.isdecimal():
        raise typer.BadParameter(f"{text!r} is not [BROKER:]QUEUE", param_hint="--queue")
    return name or broker_name, int(number)
