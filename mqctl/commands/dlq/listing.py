"""`mqctl dlq list`, `show` and `export`: which groups have dead letters, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.consumer.shared import GroupArgument
from mqctl.commands.dlq.shared import (
    IdsOption,
    MaxOption,
    MaxTriesOption,
    MinTriesOption,
    OriginOption,
    TagsOption,
    app,
    letters_of,
)
from mqctl.commands.msg.shared import (
    MESSAGE,
    FormatOption,
    MatchOption,
    SinceOption,
    SqlOption,
    UntilOption,
    message_row,
    selection_of,
    writer,
)
from mqctl.commands.telling import report_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text
from mqctl.output import Column, Format, Row, cell_text
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.deadletters import DeadLetterTopic
    from mqctl.client.admin.selecting import Selection
    from mqctl.errors import MqError
    from mqctl.remoting.message import ReceivedMessage

# -- list -----------------------------------------------------------------------------------------------

GROUPS: Final = [Column("group"), Column("messages", show=count_text), Column("lastTimestamp", "LAST", time_text)]


@app.command("list", cls=AdminCommand)
def list_groups(
    ctx: typer.Context,
    all_groups: Annotated[bool, typer.Option("--all", help="Also groups whose dead letters are gone.")] = False,
    every: WatchOption = None,
) -> None:
    """List the groups that have dead letters.

    \b
    Examples:
      mqctl dlq list --watch 10
      mqctl dlq list -o json
    """
    from mqctl.client.admin.deadletters import dead_letter_topics

    session = session_of(ctx)

    def show(found: list[DeadLetterTopic]) -> None:
        rows = [
            {"group": each.group, "messages": each.messages, "lastTimestamp": each.last_timestamp}
            for each in found
            if each.messages != 0 or all_groups
        ]
        session.print_rows(GROUPS, rows)
        report_missing(session, {name: error for each in found for name, error in each.failed.items()})

    watch(session, every, dead_letter_topics, show)


# -- show -----------------------------------------------------------------------------------------------

LETTER: Final = [
    Column("originTopic"),
    Column("tries"),
    Column("why"),
    Column("originMsgId"),
    Column("resent"),
    *MESSAGE,
]


@app.command(cls=AdminCommand)
def show(
    ctx: typer.Context,
    group: GroupArgument,
    topic: OriginOption = None,
    tags: TagsOption = None,
    ids: IdsOption = None,
    min_tries: MinTriesOption = 0,
    max_tries: MaxTriesOption = None,
    sql: SqlOption = None,
    match: MatchOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    max_count: MaxOption = None,
    template: FormatOption = None,
) -> None:
    """Show a group's dead letters, the oldest first: where they came from, how often they failed, what is in them.

    RocketMQ does not keep what went wrong, only how often the message was delivered. -o json also says whether the
    letter was sent again with `mqctl dlq resend`.

    \b
    Examples:
      mqctl dlq show order-service
      mqctl dlq show order-service --since 1d --match 'card.*declined' -o json
    """
    session = session_of(ctx)
    selection = selection_of(
        session, sql=sql, match=match, since=since, until=until,
        topic=topic, tags=tags or (), ids=ids or (), min_tries=min_tries, max_tries=max_tries,
    )  # fmt: skip
    look_up = session.output not in (None, Format.TABLE, Format.WIDE)
    write = session.stream(LETTER, _letter_line) if template is None else writer(session, template)
    missing: dict[str, MqError] = {}

    async def work(admin: Admin) -> None:
        async for letter in letters_of(admin, group, selection, max_count, missing):
            resent = await _resent(admin, letter) if look_up and template is None else None
            write(_letter_row(letter, resent))

    session.ask(work)
    report_missing(session, missing)


async def _resent(admin: Admin, letter: ReceivedMessage) -> bool | None:
    """None when that cannot be said, such as for a topic that is gone."""
    from mqctl.client.admin.deadletters import was_sent
    from mqctl.client.admin.selecting import origin_topic
    from mqctl.errors import MqError

    try:
        return await was_sent(admin, letter, origin_topic(letter))
    except MqError:
        return None


def _letter_row(letter: ReceivedMessage, resent: bool | None) -> dict[str, Any]:
    from mqctl.client.admin.selecting import origin_topic
    from mqctl.store.properties import ORIGIN_MESSAGE_ID

    tries = letter.reconsume_times
    return {
        "originTopic": origin_topic(letter),
        "tries": tries,
        "why": f"failed in each of {tries} deliveries" if tries > 1 else "refused when it was delivered first",
        "originMsgId": letter.properties.get(ORIGIN_MESSAGE_ID),
        "resent": resent,
        **message_row(letter),
    }


def _letter_line(row: Row) -> str:
    body = row["body"] if row["body"] is not None else f"base64:{row['bodyBase64']}"
    labels = "".join(f" {name}={cell_text(row[name])}" for name in ("tags", "keys") if row[name])
    return f"{time_text(row['storeTimestamp'])} {row['msgId']} {row['originTopic']}{labels} ({row['why']}) {body}"


# -- export ---------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def export(
    ctx: typer.Context,
    group: GroupArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not exist.")],
    topic: OriginOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    sql: SqlOption = None,
    match: MatchOption = None,
) -> None:
    """Write dead letters to a file, before they expire: as the stream that `mqctl store import` reads.

    For JSON use `mqctl dlq show GROUP -o json`.

    \b
    Examples:
      mqctl dlq export order-service letters.msgpack
      mqctl dlq export order-service letters.msgpack --since 1d
    """
    from mqctl.errors import ConfigError

    session = session_of(ctx)
    selection = selection_of(session, sql=sql, match=match, since=since, until=until, topic=topic)
    missing: dict[str, MqError] = {}
    try:
        number = session.ask(lambda admin: _export(admin, group, selection, file, missing))
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None
    session.env.say(f"{number} messages")
    report_missing(session, missing)


async def _export(admin: Admin, group: str, selection: Selection, file: Path, missing: dict[str, MqError]) -> int:
    from mqctl.client.admin.deadletters import find_dead_letter_topic
    from mqctl.store.offline.stream import Exported, Writer
    from mqctl.store.properties import join_properties

    await find_dead_letter_topic(admin, group)
    with file.open("xb") as target:
        stream = Writer(target)
        async for letter in letters_of(admin, group, selection, None, missing):
            stream.write(
                Exported(
                    topic=letter.topic,
                    queue_id=letter.queue_id,
                    body=letter.stored_body,
                    properties=join_properties(letter.properties).encode(),
                    flag=letter.flag,
                    sys_flag=letter.sys_flag,
                    born_timestamp=letter.born_timestamp,
                    born_host=letter.born_host,
                    reconsume_times=letter.reconsume_times,
                    queue_offset=letter.queue_offset,
                    commit_log_offset=letter.phys_offset,
                    store_timestamp=letter.store_timestamp,
                    store_host=letter.store_host,
                    prepared_transaction_offset=letter.prepared_offset,
                )
            )
        stream.finish()
    return stream.count
