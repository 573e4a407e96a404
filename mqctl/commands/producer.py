"""`mqctl producer`: who sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, noun, session_of
from mqctl.commands.completing import complete_producer_groups, complete_topics
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import report_missing
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.remoting.bodies import ProducerConnection
    from mqctl.remoting.bodies_admin import ProducerTable

app = noun("List producers that are connected.")

PRODUCERS: Final = [
    Column("group"),
    Column("clientId", "CLIENT"),
    Column("remoteIP", "ADDRESS"),
    Column("language"),
    Column("version"),
    Column("lastUpdateTimestamp", "LAST HEARD OF", time_text),
    Column("brokers"),
]


@app.command("list", cls=AdminCommand)
def list_producers(
    ctx: typer.Context,
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", metavar="ADDR", help="Only of this broker, as host:port.")
    ] = None,
    cluster: ClusterOption = None,
) -> None:
    """List all producers that are connected. Brokers tell this from RocketMQ 4.9 on.

    \b
    Examples:
      mqctl producer list
      mqctl producer list -b 127.0.0.1:10911 -o json
    """
    session = session_of(ctx)
    answers = session.ask(lambda admin: _tables(admin, broker, cluster))
    session.print_rows(PRODUCERS, _producer_rows(answers.given))
    report_missing(session, answers.failed)


async def _tables(admin: Admin, broker: str | None, cluster: str | None) -> Answers[ProducerTable]:
    from mqctl.client.admin.consumers import producer_table
    from mqctl.client.admin.everywhere import brokers_of

    brokers = {broker: broker} if broker is not None else brokers_of(await admin.cluster_info(), cluster)
    return await producer_table(admin, brokers)


def _producer_rows(tables: dict[str, ProducerTable]) -> list[dict[str, Any]]:
    """A producer is connected to several brokers and listed once."""
    from mqctl.client.admin.consumers import version_text

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, table in tables.items():
        for group, producers in table.data.items():
            for producer in producers:
                row = found.setdefault(
                    (group, producer.client_id),
                    {
                        "group": group,
                        "clientId": producer.client_id,
                        "remoteIP": producer.remote_ip.removeprefix("/"),
                        "language": producer.language,
                        "version": version_text(producer.version),
                        "lastUpdateTimestamp": 0,
                        "brokers": [],
                    },
                )
                row["lastUpdateTimestamp"] = max(row["lastUpdateTimestamp"], producer.last_update_timestamp)
                row["brokers"].append(name)
    return [found[key] for key in sorted(found)]


CONNECTIONS: Final = [
    Column("clientId", "CLIENT"),
    Column("clientAddr", "ADDRESS"),
    Column("language"),
    Column("version"),
]


@app.command(cls=AdminCommand)
def connections(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_producer_groups)],
    topic: Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics)],
) -> None:
    """List the producers of a group that are connected to the brokers of a topic.

    \b
    Example:
      mqctl producer connections order-entry -t orders
    """
    from mqctl.client.admin.consumers import version_text

    session = session_of(ctx)
    answers = session.ask(lambda admin: _connections(admin, group, topic))
    clients = {
        client.client_id: client
        for found in answers.given.values()
        for client in (found.connection_set if found is not None else [])
    }
    rows = [
        {
            "clientId": client.client_id,
            "clientAddr": client.client_addr,
            "language": client.language,
            "version": version_text(client.version),
        }
        for _, client in sorted(clients.items())
    ]
    if not rows:
        from mqctl.errors import NotFound

        raise NotFound(f"no producer of {group} is connected to the brokers of {topic}")
    session.print_rows(CONNECTIONS, rows)
    report_missing(session, answers.failed)


async def _connections(admin: Admin, group: str, topic: str) -> Answers[ProducerConnection | None]:
    from mqctl.client.admin.consumers import producer_connection
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.clusters import readable_address

    route = await admin.topic_route(topic)
    brokers = {
        broker.broker_name: address
        for broker in route.broker_datas
        if (address := readable_address(broker.broker_addrs)) is not None
    }
    return await ask_all(brokers, lambda address: producer_connection(admin, address, group))
