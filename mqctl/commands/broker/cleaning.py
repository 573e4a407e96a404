"""`mqctl broker clean-expired-cq`, `clean-unused-topics` and `delete-expired-commitlog`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen, one_of
from mqctl.commands.telling import report_missing
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.remoting.codes import RequestCode

CLEANED: Final = [Column("brokerAddr", "BROKER"), Column("done")]


def _command(name: str, what: str, words: str, help_text: str) -> None:
    """Adds `mqctl broker NAME`, which sends the request code `what` to the chosen brokers."""

    @app.command(name, cls=AdminCommand, help=help_text)
    def clean(
        ctx: typer.Context,
        broker: BrokerOption = None,
        cluster: ClusterOption = None,
        yes: YesOption = False,
        dry_run: DryRunOption = False,
    ) -> None:
        from mqctl.remoting.codes import RequestCode

        _clean(ctx, RequestCode[what], words, cluster, broker, yes, dry_run)


_command(
    "clean-expired-cq",
    "CLEAN_EXPIRED_CONSUMEQUEUE",
    "Delete expired consume queue files",
    """Delete files of consume queues whose messages are gone from the commit log.

    On all brokers unless -b or -c chooses.

    \b
    Example:
      mqctl broker clean-expired-cq -b broker-a --yes
    """,
)
_command(
    "clean-unused-topics",
    "CLEAN_UNUSED_TOPIC",
    "Delete queues of topics that are gone",
    """Delete the consume queues of topics that are not configured any more.

    On all brokers unless -b or -c chooses.

    \b
    Example:
      mqctl broker clean-unused-topics --yes
    """,
)
_command(
    "delete-expired-commitlog",
    "DELETE_EXPIRED_COMMITLOG",
    "Delete expired commit log files",
    """Delete commit log files older than fileReservedTime now, instead of at the hour of deleteWhen.

    On all brokers unless -b or -c chooses. The messages in them are gone.

    \b
    Example:
      mqctl broker delete-expired-commitlog -b broker-a --yes
    """,
)


def _clean(
    ctx: typer.Context,
    what: RequestCode,
    words: str,
    cluster: str | None,
    broker: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    one_of(cluster, broker)
    session = session_of(ctx)
    addresses = [instance.address for instance in session.ask(lambda admin: chosen(admin, cluster, broker))]
    if dry_run:
        session.print_rows(CLEANED, [{"brokerAddr": address, "done": False} for address in addresses])
        return
    confirm(session, f"{words} at {', '.join(addresses)}. Go on?", yes)

    async def ask(admin: Admin) -> Answers[None]:
        from mqctl.client.admin.brokers import clean
        from mqctl.client.admin.everywhere import ask_all

        return await ask_all({address: address for address in addresses}, lambda address: clean(admin, address, what))

    answers = session.ask(ask)
    session.print_rows(CLEANED, [{"brokerAddr": address, "done": address in answers.given} for address in addresses])
    report_missing(session, answers.failed)
