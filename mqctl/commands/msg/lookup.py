"""`mqctl msg get`, `query`, `cq` and `decode-id`: single messages by id, by place, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, LocalCommand, Session, session_of
from mqctl.commands.completing import complete_groups
from mqctl.commands.msg.finding import IdArgument, find
from mqctl.commands.msg.pushing import push, resend
from mqctl.commands.msg.shared import (
    MESSAGE,
    BrokerOption,
    FormatOption,
    SinceOption,
    TopicArgument,
    TopicOption,
    UntilOption,
    app,
    message_row,
    place_of,
    time_option,
    writer,
)
from mqctl.commands.telling import report_missing, tell_missing
from mqctl.errors import MqError, NotFound
from mqctl.exit import ExitCode, exit_code
from mqctl.figures import size_text
from mqctl.output import Column, Format
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.remoting.bodies_admin import ConsumeQueueEntries
    from mqctl.remoting.message import ReceivedMessage

# -- get ------------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def get(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Of either kind.")] = None,
    topic: TopicOption = None,
    place: Annotated[
        str | None, typer.Option("--at", metavar="BROKER:QUEUE:OFFSET", help="Instead of an id; needs -t.")
    ] = None,
    template: FormatOption = None,
    broker: BrokerOption = None,
    queue: Annotated[str | None, typer.Option("--queue", hidden=True)] = None,
    offset: Annotated[str | None, typer.Option("--offset", hidden=True)] = None,
    push_group: Annotated[str | None, typer.Option("--push-group", hidden=True)] = None,
    push_client: Annotated[str | None, typer.Option("--push-client", hidden=True)] = None,
    send_again: Annotated[bool, typer.Option("--resend", hidden=True)] = False,
) -> None:
    """Show a message, found by its id or by its place.

    An id is the one its producer knows (msgId), or the one that says where it lies (offsetMsgId). The first kind is
    looked up in the index of the topic; without -t in that of every topic.

    \b
    Examples:
      mqctl msg get 7F000001A1B218B4AAC2017F3E2C0000 -t orders
      mqctl msg get 0A00000100002A9F0000000000001F40 -o json
      mqctl msg get -t orders --at broker-a:3:4711
    """
    session = session_of(ctx)
    wanted = [msg_id for text in ids or [] for msg_id in text.split(",")]
    if place is None and offset is not None:
        place = f"{broker}:{queue}:{offset}"
    if bool(wanted) == (place is not None):
        raise typer.BadParameter("give ids, or --at with -t", param_hint="ID")
    if push_group is not None or send_again:  # mqadmin has one command for all three
        for msg_id in wanted:
            if push_group is not None:
                push(ctx, msg_id, push_group, push_client, topic)
            else:
                resend(ctx, msg_id, topic)
        return
    if place is not None:
        _show(session, [session.ask(lambda admin: _at(admin, topic, place))], template)
        return
    found, failed = session.ask(lambda admin: _find_all(admin, wanted, topic))
    _show(session, found, template)
    if len(wanted) == 1:
        for error in failed.values():
            raise error
    tell_missing(session, failed)
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if found else exit_code(next(iter(failed.values()))))


def _show(session: Session, messages: list[ReceivedMessage], template: str | None) -> None:
    rows = [message_row(message) for message in messages]
    if template is not None or session.output not in (None, Format.TABLE, Format.WIDE):
        write = writer(session, template)
        for row in rows:
            write(row)
        return
    for row in rows:
        lines = [
            {"field": column.name, "value": column.text(row)} for column in MESSAGE if row[column.name] is not None
        ]
        session.print_rows([Column("field"), Column("value")], lines)


async def _find_all(
    admin: Admin, ids: list[str], topic: str | None
) -> tuple[list[ReceivedMessage], dict[str, MqError]]:
    """What was found, and by id why the rest was not."""
    found: list[ReceivedMessage] = []
    failed: dict[str, MqError] = {}
    for msg_id in ids:
        try:
            found.append(await find(admin, msg_id, topic))
        except MqError as error:
            failed[msg_id] = error
    return found, failed


async def _at(admin: Admin, topic: str | None, place: str) -> ReceivedMessage:
    from mqctl.client.admin.messages import by_place
    from mqctl.remoting.bodies import MessageQueue

    queue_text, _, offset = place.rpartition(":")
    broker_name, queue_id = place_of(queue_text)
    if topic is None or broker_name is None or not offset.isdecimal():
        raise typer.BadParameter(f"{place!r} is not BROKER:QUEUE:OFFSET of a topic (-t)", param_hint="--at")
    return await by_place(admin, MessageQueue(topic, broker_name, queue_id), int(offset))


# -- query ----------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def query(
    ctx: typer.Context,
    topic: TopicArgument,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="A key of the message, or its producer's id.")],
    since: SinceOption = None,
    until: UntilOption = None,
    max_count: Annotated[int, typer.Option("--max", min=1, metavar="N", help="At most so many of each broker.")] = 64,
    template: FormatOption = None,
) -> None:
    """Find messages by their key, in the indexes of all brokers, the oldest first.

    \b
    Examples:
      mqctl msg query orders --key 4711
      mqctl msg query orders --key 4711 --since 1d -o json
    """
    session = session_of(ctx)
    begin, end = time_option(session, since, "--since"), time_option(session, until, "--until")
    answers = session.ask(lambda admin: _query(admin, topic, key, begin, end, max_count))
    found = sorted(
        (message for messages in answers.given.values() for message in messages),
        key=lambda message: (message.store_timestamp, message.broker_name, message.phys_offset),
    )
    write = writer(session, template)
    for message in found:
        write(message_row(message))
    report_missing(session, answers.failed)
    if not found:
        raise NotFound(f"the topic {topic} has no message with the key {key}")


async def _query(
    admin: Admin, topic: str, key: str, since: int | None, until: int | None, maximum: int
) -> Answers[list[ReceivedMessage]]:
    from mqctl.client.admin.messages import END_OF_TIME, Period, by_key

    period = Period(since or 0, END_OF_TIME if until is None else until)
    answers = await by_key(admin, topic, key, maximum=maximum, period=period)
    if not any(answers.given.values()):
        return await by_key(admin, topic, key, maximum=maximum, period=period, unique=True)
    return answers


# -- cq -------------------------------------------------------------------------------------------------

ENTRIES: Final = [
    Column("queueOffset"),
    Column("physicOffset"),
    Column("physicSize", show=size_text),
    Column("tagsCode"),
    Column("wanted"),
    Column("extendData", wide=True),
]


@app.command(cls=AdminCommand)
def cq(
    ctx: typer.Context,
    topic: TopicArgument,
    queue: Annotated[str, typer.Option("--queue", metavar="[BROKER:]N", help="Without a broker at the first.")],
    start: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET")] = 0,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N")] = 10,
    group: Annotated[
        str | None,
        typer.Option(
            "-g",
            "--group",
            metavar="GROUP",
            autocompletion=complete_groups,
            help="Also say whether its filter wants them.",
        ),
    ] = None,
    broker: Annotated[str | None, typer.Option("--broker", metavar="ADDR", hidden=True)] = None,
) -> None:
    """Show entries of a consume queue, as the broker has them.

    \b
    Examples:
      mqctl msg cq orders --queue broker-a:0 --from 4711
    """
    session = session_of(ctx)
    broker_name, queue_id = place_of(queue)
    entries = session.ask(lambda admin: _entries(admin, topic, broker_name or broker, queue_id, start, count, group))
    rows = [
        {
            "queueOffset": number,
            "physicOffset": entry.physic_offset,
            "physicSize": entry.physic_size,
            "tagsCode": entry.tags_code,
            "wanted": entry.eval if group is not None else None,
            "extendData": entry.extend_data_json,
        }
        for number, entry in enumerate(entries.queue_data, max(start, entries.min_queue_index))
    ]
    session.print_rows(ENTRIES, rows)
    session.env.say(f"the queue has entries from {entries.min_queue_index} to before {entries.max_queue_index}")


async def _entries(
    admin: Admin, topic: str, broker: str | None, queue_id: int, start: int, count: int, group: str | None
) -> ConsumeQueueEntries:
    """`broker`: its name or its address."""
    from mqctl.client.admin.messages import brokers_of_topic, queue_entries

    brokers = await brokers_of_topic(admin, topic)
    for name, address in brokers.items():
        if broker in (None, name, address):
            return await queue_entries(admin, address, topic, queue_id, start, count, group)
    raise NotFound(f"the topic {topic} is not at broker {broker}", hint=f"it is at {', '.join(brokers)}")


# -- decode-id ------------------------------------------------------------------------------------------

DECODED: Final = [
    Column("id"),
    Column("storeHost"),
    Column("commitLogOffset"),
    Column("clientIp"),
    Column("pid"),
    Column("bornTimestamp", "BORN ABOUT", time_text),
    Column("counter"),
]


@app.command("decode-id", cls=LocalCommand)
def decode_id(ctx: typer.Context, ids: Annotated[list[str], IdArgument]) -> None:
    """Say what an id tells: where the message lies, and who made it when.

    Nobody can see which kind an id is, so both readings are given. An offset beyond any log, or a port that no broker
    has, means that it is a producer's id; that says the time within a month only, here the last one.

    \b
    Examples:
      mqctl msg decode-id 7F000001A1B218B4AAC2017F3E2C0000
    """
    session = session_of(ctx)
    session.print_rows(DECODED, [_decoded(session, text) for text in ids])


def _decoded(session: Session, text: str) -> dict[str, Any]:
    import ipaddress

    from mqctl.remoting.unique_id import born_time_ms
    from mqctl.store.record import decode_msg_id

    try:
        (host, port), phys_offset = decode_msg_id(text)
        born = born_time_ms(text, int(session.env.clock() * 1000))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no message id: {error}", param_hint="ID") from None
    packed = bytes.fromhex(text)
    return {
        "id": text,
        "storeHost": f"{host}:{port}",
        "commitLogOffset": phys_offset,
        "clientIp": str(ipaddress.ip_address(packed[:-12])),
        "pid": int.from_bytes(packed[-12:-10], "big"),
        "bornTimestamp": born,
        "counter": int.from_bytes(packed[-2:], "big"),
    }
