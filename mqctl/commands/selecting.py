"""Which brokers a command is for: the options, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.completing import complete_brokers, complete_clusters

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.clusters import Instance

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "-c", "--cluster", metavar="CLUSTER", autocompletion=complete_clusters, help="All brokers of this cluster."
    ),
]
BrokerOption = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--broker",
        metavar="BROKER",
        autocompletion=complete_brokers,
        help="Only this broker: its name, or an address as host:port.",
    ),
]
BrokerArgument = Annotated[
    str | None,
    typer.Argument(metavar="[BROKER]", autocompletion=complete_brokers, help="Its name, or an address as host:port."),
]
BrokerName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_brokers)]


def one_of(cluster: str | None, broker: str | None) -> None:
    if cluster is not None and broker is not None:
        raise typer.BadParameter("give -c or -b, not both")


async def chosen(admin: Admin, cluster: str | None, broker: str | None) -> list[Instance]:
    """Masters and slaves, of the cluster, of the name, or all there are. Raises NotFound."""
    from mqctl.client.admin.brokers import find_instances

    return find_instances(await admin.cluster_info(), cluster, broker)


async def chosen_masters(admin: Admin, cluster: str | None, broker: str | None) -> dict[str, str]:
    """Addresses by name, for what only masters do. Without a choice there must be one cluster. Raises NotFound,
    ConfigError."""
    from mqctl.client.admin.brokers import find_instances
    from mqctl.client.clusters import masters
    from mqctl.errors import NotFound

    info = await admin.cluster_info()
    if broker is None:
        return masters(info, cluster)
    found = {one.broker_name: one.address for one in find_instances(info, cluster, broker) if one.is_master}
    if not found:
        raise NotFound(f"no master of {broker} is running")
    return found
