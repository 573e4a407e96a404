"""`mqctl msg`: send messages and follow topics."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.topic import TopicArgument
from mqctl.errors import ConfigError, NotFound
from mqctl.output import Column, Row, cell_text
from mqctl.times import parse_time, time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.results import SendResult
    from mqctl.client.tailing import Start
    from mqctl.errors import MqError
    from mqctl.remoting.bodies import MessageQueue
    from mqctl.remoting.message import Message, ReceivedMessage

# What RocketMQ's own tools call themselves; a broker needs no configuration for producers.
PRODUCER_GROUP: Final = "TOOLS_PRODUCER"

app = noun("Send messages and follow topics.")


# -- send -----------------------------------------------------------------------------------------------

SENT: Final = [Column(name) for name in ("msgId", "offsetMsgId", "brokerName", "queueId", "queueOffset", "sendStatus")]


@app.command(cls=AdminCommand)
def send(
    ctx: typer.Context,
    topic: TopicArgument,
    body: Annotated[str, typer.Argument(metavar="BODY", help="Text, @FILE for a file's content, - for stdin.")],
    tag: Annotated[str, typer.Option("--tag", metavar="TAG")] = "",
    key: Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help="May be given several times.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="May be given several times."),
    ] = None,
    queue: Annotated[
        int | None, typer.Option("--queue", min=0, metavar="N", help="This queue, instead of one after the other.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Send it so many times.")] = 1,
) -> None:
    """Send a message.

    A topic that does not exist is created if the brokers allow that (autoCreateTopicEnable).

    \b
    Examples:
      mqctl msg send orders 'hello'
      mqctl msg send orders @order.json --tag paid --key 4711 --property region=eu
      date | mqctl msg send orders -
    """
    import asyncio

    from mqctl.client import Message

    session = session_of(ctx)
    message = Message(
        topic=topic,
        body=_read_body(session, body),
        tags=tag,
        keys=key or "",
        properties=_user_properties(properties or []),
    )
    write = session.stream(SENT, _sent_line)
    asyncio.run(_send(session, message, queue, count, lambda result: write(_sent_row(result))))


def _read_body(session: Session, body: str) -> bytes:
    if body == "-":
        return session.env.stdin.buffer.read()
    if body.startswith("@"):
        try:
            return Path(body[1:]).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {body[1:]}: {error.strerror or error}") from None
    # Arguments that are not UTF-8 come in as lone surrogates; this gives back the bytes that were typed.
    return body.encode(errors="surrogateescape")


def _user_properties(texts: list[str]) -> dict[str, str]:
    from mqctl.store.properties import RESERVED_NAMES

    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator or not value:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
        if name in RESERVED_NAMES:
            raise typer.BadParameter(f"{name} belongs to RocketMQ; choose another name", param_hint="--property")
        found[name] = value
    return found


async def _send(
    session: Session, message: Message, queue_id: int | None, count: int, sent: Callable[[SendResult], None]
) -> None:
    """Each is tried once: whoever looks at the result decides about the next."""
    from mqctl.client import Producer

    async with Producer(PRODUCER_GROUP, session.name_servers, timeout=session.timeout, retries=0) as producer:
        queues = None if queue_id is None else _numbered(await producer.queues(message.topic), queue_id)
        for number in range(count):
            sent(await producer.send(message, queue=None if queues is None else queues[number % len(queues)]))


def _numbered(queues: list[MessageQueue], queue_id: int) -> list[MessageQueue]:
    """The queue of that number at each broker."""
    found = [queue for queue in queues if queue.queue_id == queue_id]
    if not found:
        count = max(queue.queue_id for queue in queues) + 1
        topic = queues[0].topic
        raise NotFound(f"the topic {topic} has no writable queue {queue_id}: they are numbered 0 to {count - 1}")
    return found


def _sent_row(result: SendResult) -> dict[str, Any]:
    return {
        "msgId": result.msg_id,
        "offsetMsgId": result.offset_msg_id,
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        "sendStatus": result.status,
    }


def _sent_line(row: Row) -> str:
    return (
        f"{row['msgId']}  {row['brokerName']}  queue {row['queueId']}  offset {row['queueOffset']}  {row['sendStatus']}"
    )


# -- tail -----------------------------------------------------------------------------------------------

RECEIVED: Final = [
    Column(name)
    for name in (
        "storeTimestamp",
        "brokerName",
        "queueId",
        "queueOffset",
        "msgId",
        "tags",
        "keys",
        "body",
        "bodyBase64",
        "properties",
    )
]


@app.command(cls=AdminCommand)
def tail(
    ctx: typer.Context,
    topic: TopicArgument,
    tag: Annotated[
        str, typer.Option("--tag", metavar="EXPR", help="Only these tags, such as 'paid || shipped'.")
    ] = "*",
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHEN", help="earliest, latest, or a time such as -10m or 2024-05-31T12:00."),
    ] = "latest",
    max_count: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after so many messages.")
    ] = None,
) -> None:
    """Follow a topic: print messages as they arrive, until Ctrl-C.

    Reads all queues of all brokers, without a consumer group: no offset is stored, no consumer is disturbed. With
    -o json every message is one line of JSON.

    \b
    Examples:
      mqctl msg tail orders
      mqctl msg tail orders --from earliest --max 10
      mqctl msg tail orders --tag 'paid || shipped' -o json
    """
    session = session_of(ctx)
    begin = _start(session, start)
    write = session.stream(RECEIVED, _received_line)
    try:
        session.ask(lambda admin: _tail(session, admin, topic, tag, begin, max_count, write))
    except KeyboardInterrupt:
        return  # the normal way to end it


def _start(session: Session, text: str) -> Start | int:
    from mqctl.client.tailing import Start

    try:
        return Start(text) if text in ("earliest", "latest") else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None


async def _tail(
    session: Session,
    admin: Admin,
    topic: str,
    tags: str,
    start: Start | int,
    max_count: int | None,
    write: Callable[[Row], None],
) -> None:
    from contextlib import aclosing

    from mqctl.client.tailing import Tail

    def on_trouble(error: MqError) -> None:
        session.env.say(f"warning: {error.message}; trying again")

    following = Tail(admin, topic, tags=tags, start=start, on_trouble=on_trouble)
    queues = await following.open()
    session.env.say(f"following {topic}: {queues} queues, Ctrl-C to stop")
    count = 0
    async with aclosing(following.messages()) as messages:
        async for message in messages:
            write(_received_row(message))
            count += 1
            if count == max_count:
                return


def _received_row(message: ReceivedMessage) -> dict[str, Any]:
    """`body` where it is UTF-8 text, else `bodyBase64`; the other one is null."""
    from mqctl.remoting.compression import CompressionError

    try:
        body = message.body
    except CompressionError:
        body = message.stored_body  # better the compressed bytes than nothing
    text = _text(body)
    return {
        "topic": message.topic,
        "storeTimestamp": message.store_timestamp,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.msg_id,
        "tags": message.tags or None,
        "keys": message.keys,
        "body": text,
        "bodyBase64": None if text is not None else base64.b64encode(body).decode(),
        "properties": message.properties,
    }


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _received_line(row: Row) -> str:
    body = row["body"] if row["body"] is not None else f"base64:{row['bodyBase64']}"
    place = f"{row['brokerName']}/{row['queueId']}@{row['queueOffset']}"
    labels = "".join(f" {name}={cell_text(row[name])}" for name in ("tags", "keys") if row[name])
    return f"{time_text(row['storeTimestamp'])} {place}{labels} {body}"
