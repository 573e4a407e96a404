"""`mqctl cluster health`: one answer for probes and for people, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.cluster.shared import Seen, app, look
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.watching import WatchOption, watch
from mqctl.exit import ExitCode
from mqctl.figures import count_text, share_text, size_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.errors import MqError

FINDINGS: Final = [Column("subject"), Column("healthy"), Column("detail")]

# From where on a broker begins to refuse messages: diskSpaceWarningLevelRatio of RocketMQ.
DISK_FULL: Final = 0.9
# waitTimeMillsInSendQueue of RocketMQ: from there on senders get SYSTEM_BUSY.
SEND_WAIT_MS: Final = 200


@app.command(cls=AdminCommand)
def health(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    max_disk: Annotated[
        float, typer.Option("--max-disk", min=0, max=1, metavar="RATIO", help="How full a disk may be.")
    ] = DISK_FULL,
    max_behind: Annotated[
        int, typer.Option("--max-slave-behind", min=0, metavar="BYTES", help="How far a slave may be behind.")
    ] = 256 * 1024 * 1024,
    every: WatchOption = None,
) -> None:
    """Say whether a cluster is well: name servers and brokers answer, masters are there, disks have room, nobody waits.

    Ends with 0 if so, with 8 if not; with --watch it goes on.

    \b
    Examples:
      mqctl cluster health
      mqctl cluster health -c DefaultCluster --max-disk 0.8 -o json
    """
    session = session_of(ctx)

    def show(looked: tuple[dict[str, MqError | None], Seen]) -> None:
        servers, seen = looked
        rows = [*_name_servers(servers), *_brokers(seen, max_disk), *_slaves(seen, max_behind)]
        session.print_rows(FINDINGS, rows)
        ill = [row for row in rows if not row["healthy"]]
        if ill:
            session.env.say(f"{len(ill)} of {len(rows)} are not well")
            raise typer.Exit(ExitCode.ALERT)

    watch(session, every, lambda admin: _look(admin, lambda: look(session, admin, cluster)), show)


async def _look(admin: Admin, brokers: Any) -> tuple[dict[str, MqError | None], Seen]:
    import asyncio

    from mqctl.client.admin.brokers import namesrv_config
    from mqctl.errors import MqError

    async def ping(address: str) -> MqError | None:
        try:
            await namesrv_config(admin, address)
        except MqError as error:
            return error
        return None

    addresses = admin.name_server_addresses
    answers, seen = await asyncio.gather(asyncio.gather(*map(ping, addresses)), brokers())
    return dict(zip(addresses, answers, strict=True)), seen


def _finding(subject: str, problems: list[str]) -> dict[str, Any]:
    return {"subject": subject, "healthy": not problems, "detail": "; ".join(problems)}


def _name_servers(servers: dict[str, MqError | None]) -> Iterator[dict[str, Any]]:
    for address, error in servers.items():
        yield _finding(f"name server {address}", [] if error is None else [error.message])


def _brokers(seen: Seen, max_disk: float) -> Iterator[dict[str, Any]]:
    for instance in seen.instances:
        subject = f"broker {instance.broker_name}:{instance.broker_id} {instance.address}"
        load = seen.loads.get(instance.address)
        if load is None:
            yield _finding(subject, [seen.failed[instance.address].message])
            continue
        problems = []
        if load.disk_ratio > max_disk:
            problems.append(f"its disk is {share_text(load.disk_ratio)} full")
        if load.send_wait_ms > SEND_WAIT_MS:
            problems.append(f"sends wait for {count_text(load.send_wait_ms)} ms")
        if not load.active:
            problems.append("it is not active")
        yield _finding(subject, problems)


def _slaves(seen: Seen, max_behind: int) -> Iterator[dict[str, Any]]:
    for name in sorted({instance.broker_name for instance in seen.instances}):
        members = [instance for instance in seen.instances if instance.broker_name == name]
        if not any(instance.is_master for instance in members):
            yield _finding(f"broker {name}", ["it has no master: nobody can send to it"])
            continue
        ends = {
            instance.broker_id: int(runtime.get("commitLogMaxOffset", "0"))
            for instance in members
            if (runtime := seen.runtimes.get(instance.address)) is not None
        }
        for broker_id, end in ends.items():
            behind = ends.get(0, end) - end
            if behind > max_behind:
                yield _finding(f"broker {name}:{broker_id}", [f"it is {size_text(behind)} behind its master"])
