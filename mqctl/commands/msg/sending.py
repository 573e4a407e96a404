"""`mqctl msg send` and `mqctl msg rt`: messages into a topic, and how long that takes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.msg.shared import BrokerOption, TopicArgument, app, place_of
from mqctl.errors import ConfigError, MqError, NotFound
from mqctl.exit import ExitCode
from mqctl.figures import count_text, size_text
from mqctl.output import Column, Row

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.results import SendResult
    from mqctl.remoting.bodies import MessageQueue
    from mqctl.remoting.message import Message

# What RocketMQ's own tools call themselves; a broker needs no configuration for producers.
PRODUCER_GROUP: Final = "TOOLS_PRODUCER"

SENT: Final = [Column(name) for name in ("msgId", "offsetMsgId", "brokerName", "queueId", "queueOffset", "sendStatus")]


@app.command(cls=AdminCommand)
def send(
    ctx: typer.Context,
    topic: TopicArgument,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="Text, @FILE for a file's content, - for stdin.")
    ] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="TAG")] = "",
    key: Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help="May be given several times.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="May be given several times."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="[BROKER:]N", help="This queue, instead of one after the other."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Send it so many times.")] = 1,
    lines: Annotated[bool, typer.Option("--lines", help="BODY holds many: every line is a message.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json", help="BODY holds many: every line is JSON as `tail -o json` prints it.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Leave a trace, see `mqctl msg trace`.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it, and say where it could go.")] = False,
    broker: BrokerOption = None,
    text: Annotated[str | None, typer.Option("--text", hidden=True)] = None,
) -> None:
    """Send a message, or many.

    A topic that does not exist is created if the brokers allow that (autoCreateTopicEnable). With --json a line is an
    object with body or bodyBase64, and if wanted tags, keys (a list) and properties; what only RocketMQ itself sets is
    left out.

    \b
    Examples:
      mqctl msg send orders 'hello'
      mqctl msg send orders @order.json --tag paid --key 4711 --property region=eu
      seq 1000 | mqctl msg send orders - --lines
      mqctl msg send copy @orders.jsonl --json --dry-run
    """
    import asyncio

    from mqctl.client import Message

    session = session_of(ctx)
    if lines and json_lines:
        raise typer.BadParameter("a line is either a body or JSON", param_hint="--lines and --json")
    if (body is None) == (text is None):
        raise typer.BadParameter("a message needs one; '' is an empty one", param_hint="BODY")
    # mqadmin's bodies are never files.
    data = _read_body(session, body) if body is not None else (text or "").encode(errors="surrogateescape")
    common = Message(topic=topic, tags=tag, keys=key or "", properties=_user_properties(properties or []))
    write = session.stream(SENT, _sent_line)
    messages = _messages(common, data, lines=lines, json_lines=json_lines)
    place = None if queue is None else place_of(queue, broker)
    if dry_run:
        _check(session, topic, messages, place, count)
        return
    asyncio.run(_send(session, messages, place, count, trace, lambda result: write(_sent_row(result))))


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


def _messages(common: Message, data: bytes, *, lines: bool, json_lines: bool) -> list[Message]:
    """All are made before the first is sent: a mistake in the last line must not leave half of them behind."""
    from dataclasses import replace

    if lines:
        return [replace(common, body=line) for line in data.splitlines()]
    if json_lines:
        return list(_from_json(common, data))
    return [replace(common, body=data)]


def _from_json(common: Message, data: bytes) -> Iterator[Message]:
    from dataclasses import replace

    import msgspec

    from mqctl.client.admin.copying import OF_ONE_DELIVERY
    from mqctl.store.properties import KEYS, TAGS

    class Line(msgspec.Struct, rename="camel"):
        body: str | None = None
        body_base64: str | None = None
        tags: str | None = None
        keys: list[str] | str | None = None
        properties: dict[str, str] = {}

    decoder = msgspec.json.Decoder(Line)
    for number, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
            body = base64.b64decode(line.body_base64) if line.body_base64 is not None else (line.body or "").encode()
        except (msgspec.DecodeError, binascii.Error) as error:
            raise ConfigError(f"line {number} is no message: {error}; nothing was sent") from None
        own = {name: value for name, value in line.properties.items() if name not in OF_ONE_DELIVERY | {KEYS, TAGS}}
        yield replace(
            common,
            body=body,
            tags=line.tags or common.tags,
            keys=line.keys or common.keys,
            properties={**own, **common.properties},
        )


async def _send(
    session: Session,
    messages: list[Message],
    place: tuple[str | None, int] | None,
    count: int,
    trace: bool,
    sent: Callable[[SendResult], None],
) -> None:
    """Each is tried once: whoever looks at the result decides about the next."""
    from itertools import cycle

    from mqctl.client import Producer

    async with Producer(
        PRODUCER_GROUP,
        session.name_servers,
        timeout=session.timeout,
        credentials=session.credentials,
        retries=0,
        trace=trace,
    ) as producer:
        queues: Iterator[MessageQueue | None] = cycle([None])
        if place is not None and messages:
            queues = cycle(_numbered(await producer.queues(messages[0].topic), *place))
        for _ in range(count):
            for message in messages:
                sent(await producer.send(message, queue=next(queues)))


def _numbered(queues: list[MessageQueue], broker_name: str | None, queue_id: int) -> list[MessageQueue]:
    """The queue of that number, at the broker named or at each."""
    found = [queue for queue in queues if queue.queue_id == queue_id and broker_name in (None, queue.broker_name)]
    if not found:
        count = max(queue.queue_id for queue in queues) + 1
        topic, brokers = queues[0].topic, ", ".join(sorted({queue.broker_name for queue in queues}))
        where = "" if broker_name is None else f" at {broker_name}"
        raise NotFound(
            f"the topic {topic} has no writable queue {queue_id}{where}: they are numbered 0 to {count - 1}",
            hint=f"brokers that take messages: {brokers}",
        )
    return found


WOULD: Final = [Column("topic"), Column("brokerName", "BROKER"), Column("queueId", "QUEUE")]


def _check(
    session: Session, topic: str, messages: list[Message], place: tuple[str | None, int] | None, count: int
) -> None:
    """Prints the queues that messages may go to. Raises MqError for what no broker would be asked to take."""
    from mqctl.client.outgoing import Encoder

    encoder = Encoder(PRODUCER_GROUP)
    for message in messages:
        encoder.single(message)
    queues, exists = session.ask(lambda admin: _targets(session, admin, topic))
    if place is not None:
        queues = _numbered(queues, *place)
    rows = [{"topic": topic, "brokerName": queue.broker_name, "queueId": queue.queue_id} for queue in queues]
    session.print_rows(WOULD, rows)
    size = size_text(sum(len(message.body) for message in messages) * count)
    session.env.say(f"nothing was sent: {count_text(len(messages) * count)} messages, {size}")
    if not exists:
        session.env.say(f"the topic {topic} does not exist: the first message would create it")


async def _targets(session: Session, admin: Admin, topic: str) -> tuple[list[MessageQueue], bool]:
    """And whether the topic exists, or is one that brokers would create."""
    from mqctl.client import Producer

    async with Producer(
        PRODUCER_GROUP, session.name_servers, timeout=session.timeout, credentials=session.credentials
    ) as producer:
        queues = await producer.queues(topic)
    try:
        await admin.topic_route(topic)
    except NotFound:
        return queues, False
    return queues, True


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


# -- how long it takes ----------------------------------------------------------------------------------

TIMES: Final = [Column("brokerName"), Column("queueId"), Column("sendStatus"), Column("rtMs", "RT (MS)")]


@app.command(cls=AdminCommand)
def rt(
    ctx: typer.Context,
    topic: TopicArgument,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="So many messages.")] = 100,
    size: Annotated[int, typer.Option("--size", min=1, metavar="BYTES", help="Of so many bytes.")] = 128,
) -> None:
    """Measure how long brokers take to store a message: sends some, one after the other.

    The messages stay in the topic; consumers get them. The first one, which also opens the connection, is sent but not
    counted.

    \b
    Examples:
      mqctl msg rt test-topic
      mqctl msg rt test-topic --count 20 --size 4096 -o json
    """
    import asyncio

    session = session_of(ctx)
    write = session.stream(
        TIMES, lambda row: f"{row['brokerName']}  {row['queueId']}  {row['sendStatus']}  {row['rtMs']} ms"
    )
    times, failures = asyncio.run(_measure(session, topic, count, b"x" * size, write))
    if times:
        ordered = sorted(times)
        session.env.say(
            f"{len(times)} messages: {sum(times) / len(times):.3f} ms on average, "
            f"half within {ordered[len(times) // 2]:.3f} ms, slowest {ordered[-1]:.3f} ms"
        )
    if failures:
        raise typer.Exit(ExitCode.PARTIAL if times else ExitCode.REFUSED)


async def _measure(
    session: Session, topic: str, count: int, body: bytes, write: Callable[[Row], None]
) -> tuple[list[float], int]:
    import time

    from mqctl.client import Message, Producer

    times: list[float] = []
    failures = 0
    async with Producer(
        PRODUCER_GROUP, session.name_servers, timeout=session.timeout, credentials=session.credentials, retries=0
    ) as producer:
        await producer.send(Message(topic, body))
        for _ in range(count):
            began = time.perf_counter()
            try:
                result = await producer.send(Message(topic, body))
            except MqError as error:
                failures += 1
                session.env.say(f"warning: {error.message}")
                continue
            times.append((time.perf_counter() - began) * 1000)
            write({**_sent_row(result), "rtMs": round(times[-1], 3)})
    return times, failures
