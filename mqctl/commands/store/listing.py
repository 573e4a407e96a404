"""`mqctl store info`, `ls`, `du`: what is there, and how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import LocalCommand, session_of
from mqctl.commands.store.shared import CommitlogOption, DirArgument, Progress, app, open_store, print_one
from mqctl.figures import count_text, size_text
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.store.offline.queuefiles import QueueFiles

TopicName = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only this topic.")]

INFO: Final = [
    Column("clean", show=lambda clean: "yes" if clean else "no: in use, or its broker did not stop cleanly"),
    Column("commitLogFiles", show=count_text),
    Column("commitLogFileSize", show=size_text),
    Column("commitLogMinOffset"),
    Column("commitLogMaxOffset"),
    Column("commitLogBytes", show=size_text),
    Column("commitLogDiskBytes", show=size_text),
    Column("firstStoreTimestamp", show=time_text),
    Column("lastStoreTimestamp", show=time_text),
    Column("topics", show=count_text),
    Column("queues", show=count_text),
    Column("messages", show=count_text),
    Column("configFiles"),
]


@app.command(cls=LocalCommand)
def info(ctx: typer.Context, directory: DirArgument, commitlog: CommitlogOption = None) -> None:
    """Show what a store folder holds.

    A store with the file `abort` is not clean: a broker runs on it, or ended without closing it.

    \b
    Examples:
      mqctl store info /var/lib/mqctl/store
      mqctl store info ~/store -o json
    """
    found = open_store(directory, commitlog).info()
    row = {
        "clean": found.clean,
        "commitLogFiles": found.log_files,
        "commitLogFileSize": found.log_file_size,
        "commitLogMinOffset": found.log_begin,
        "commitLogMaxOffset": found.log_end,
        "commitLogBytes": found.size_bytes,
        "commitLogDiskBytes": found.disk_bytes,
        "firstStoreTimestamp": found.first_store_timestamp,
        "lastStoreTimestamp": found.last_store_timestamp,
        "topics": found.topics,
        "queues": found.queues,
        "messages": found.messages,
        "configFiles": found.config_files,
    }
    print_one(session_of(ctx), INFO, row)


# -- ls -------------------------------------------------------------------------------------------------

QUEUES: Final = [
    *(Column(name) for name in ("topic", "queueId", "minOffset", "maxOffset")),
    Column("messages", show=count_text),
]


@app.command("ls", cls=LocalCommand)
def list_queues(
    ctx: typer.Context, directory: DirArgument, topic: TopicName = None, commitlog: CommitlogOption = None
) -> None:
    """List the queues of a store.

    A message that is not in its consume queue yet, because the broker has just stored it, is not counted.

    \b
    Examples:
      mqctl store ls ~/store
      mqctl store ls ~/store orders -o csv
    """
    session_of(ctx).print_rows(
        QUEUES, [_queue_row(queue) for queue in open_store(directory, commitlog).queues_of(topic)]
    )


def _queue_row(queue: QueueFiles) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "minOffset": queue.min_offset,
        "maxOffset": queue.max_offset,
        "messages": queue.messages,
    }


USAGE: Final = [
    Column("topic"),
    Column("queueId"),
    Column("messages", show=count_text),
    Column("bytes", show=size_text),
]
TAG_USAGE: Final = [*USAGE[:2], Column("tagsCode"), *USAGE[2:]]


@app.command(cls=LocalCommand)
def du(
    ctx: typer.Context,
    directory: DirArgument,
    topic: TopicName = None,
    tags: Annotated[bool, typer.Option("--tags", help="Also by the hash of the tag.")] = False,
    commitlog: CommitlogOption = None,
) -> None:
    """Show how many messages and bytes of the log each queue has.

    Only the consume queues are read, so this is quick however large the log is. They hold hashes of tags, not the tags.

    \b
    Examples:
      mqctl store du ~/store
      mqctl store du ~/store orders --tags
    """
    from mqctl.store.consumequeue import ENTRY_SIZE
    from mqctl.store.offline.queuefiles import usage, usage_by_tag

    session = session_of(ctx)
    progress = Progress(session, "read")
    queues = open_store(directory, commitlog).queues_of(topic)
    done, total = 0, sum(queue.messages for queue in queues) * ENTRY_SIZE
    rows: list[dict[str, Any]] = []
    for queue in queues:
        place = {"topic": queue.topic, "queueId": queue.queue_id}
        if tags:
            for tags_code, used in usage_by_tag(queue).items():
                rows.append({**place, "tagsCode": tags_code, "messages": used.messages, "bytes": used.size_bytes})
        else:
            used = usage(queue)
            rows.append({**place, "messages": used.messages, "bytes": used.size_bytes})
        done += queue.messages * ENTRY_SIZE
        progress(done, total)
    progress.clear()
    session.print_rows(TAG_USAGE if tags else USAGE, rows)
