"""`mqctl acl account list`, `update` and `delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.acl.shared import addresses_of, app, everywhere
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption
from mqctl.commands.telling import report_missing
from mqctl.output import Column, cell_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.acl import Account
    from mqctl.client.admin.everywhere import Answers

account = noun("Show and change accounts.")
app.add_typer(account, name="account")

FIELDS: Final = (
    "secretKey",
    "admin",
    "whiteRemoteAddress",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
ACCOUNTS: Final = [Column("brokerAddr", "BROKER"), Column("accessKey"), *map(Column, FIELDS)]
CHANGED: Final = [
    Column("brokerAddr", "BROKER"),
    Column("accessKey"),
    Column("changed", show=lambda changed: ", ".join(changed) or "nothing"),
]
AccessKeyArgument = Annotated[str, typer.Argument(metavar="ACCESS_KEY", help="The account's name.")]


@account.command("list", cls=AdminCommand)
def list_accounts(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="As far as brokers tell them.")] = False,
) -> None:
    """List the accounts of each broker, and say which addresses need none.

    \b
    Examples:
      mqctl acl account list
      mqctl acl account list -b broker-a --show-secrets -o json
    """
    from mqctl.client.admin.acl import acl_config
    from mqctl.remoting.bodies_acl import MASKED

    session = session_of(ctx)
    answers = everywhere(session, cluster, broker, acl_config)
    rows = []
    for address, config in answers.given.items():
        for one in config.plain_access_configs:
            found = {name: getattr(one, attribute) for name, attribute in _ATTRIBUTES.items()}
            hidden = found if show_secrets else {**found, "secretKey": MASKED}
            rows.append({"brokerAddr": address, "accessKey": one.access_key, **hidden})
    session.print_rows(ACCOUNTS, rows)
    for address, config in answers.given.items():
        if config.global_white_addrs:
            session.env.say(f"{address}: no account needed from {', '.join(config.global_white_addrs)}")
    report_missing(session, answers.failed)


_ATTRIBUTES: Final = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in FIELDS}


@account.command(cls=AdminCommand)
def update(
    ctx: typer.Context,
    access_key: AccessKeyArgument,
    secret_key: Annotated[
        str | None,
        typer.Option("--secret-key", metavar="SECRET", help="At least 7 characters; - reads it from stdin."),
    ] = None,
    admin: Annotated[
        bool | None, typer.Option("--admin/--no-admin", help="Whether it may change topics, groups and settings.")
    ] = None,
    default_topic_perm: Annotated[
        str | None, typer.Option("--default-topic-perm", metavar="PERM", help="PUB, SUB, PUB|SUB or DENY.")
    ] = None,
    default_group_perm: Annotated[str | None, typer.Option("--default-group-perm", metavar="PERM")] = None,
    topic_perms: Annotated[
        str | None,
        typer.Option("--topic-perms", metavar="TOPIC=PERM,...", help="In place of all that it has for topics."),
    ] = None,
    group_perms: Annotated[
        str | None,
        typer.Option("--group-perms", metavar="GROUP=PERM,...", help="In place of all that it has for groups."),
    ] = None,
    white_address: Annotated[
        str | None, typer.Option("--white-address", metavar="ADDR", help="From there no signature is needed.")
    ] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create an account, or change one, on all brokers.

    What is not given stays as it is. This cannot be undone: secrets are not written into the journal.

    \b
    Examples:
      mqctl acl account update order-service --secret-key - --topic-perms 'orders=PUB|SUB'
      mqctl acl account update order-service --default-topic-perm DENY --dry-run
      mqctl acl account update operators --secret-key 12345678 --admin -c DefaultCluster --yes
    """
    from mqctl.client.admin.acl import change_account

    session = session_of(ctx)
    if secret_key == "-":
        secret_key = session.env.stdin.readline().strip()
    given = {
        "secretKey": secret_key,
        "admin": admin,
        "whiteRemoteAddress": white_address,
        "defaultTopicPerm": default_topic_perm,
        "defaultGroupPerm": default_group_perm,
        "topicPerms": _listed(topic_perms),
        "groupPerms": _listed(group_perms),
    }
    wish = {name: value for name, value in given.items() if value is not None}

    def change(only_plan: bool) -> Answers[tuple[Account | None, Account | None]]:
        async def work(admin: Admin, address: str) -> tuple[Account | None, Account | None]:
            return await change_account(admin, address, access_key, wish, dry_run=only_plan)

        return everywhere(session, cluster, broker, work)

    new_secret = "secretKey" in wish
    if not (dry_run or yes):
        _confirm_change(session, access_key, change(True).given, new_secret)
    answers = change(dry_run)
    rows = [
        {"brokerAddr": address, "accessKey": access_key, "changed": _changes(before, after, new_secret)}
        for address, (before, after) in answers.given.items()
    ]
    session.print_rows(CHANGED, rows)
    report_missing(session, answers.failed)


def _confirm_change(
    session: Session, access_key: str, plans: dict[str, tuple[Account | None, Account | None]], new_secret: bool
) -> None:
    """Nobody signs with an account yet that is new."""
    changed = {
        address: _changes(before, after, new_secret) for address, (before, after) in plans.items() if before is not None
    }
    if any(changed.values()):
        what = "; ".join(dict.fromkeys(change for changes in changed.values() for change in changes))
        where = ", ".join(address for address, changes in changed.items() if changes)
        confirm(session, f"Change the account {access_key} on {where}: {what}. Go on?", yes=False)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _changes(before: Account | None, after: Account | None, new_secret: bool) -> list[str]:
    old, new = before or {}, after or {}
    changed = [
        f"{name} {cell_text(old.get(name))} -> {cell_text(new.get(name))}"
        for name in FIELDS
        if name != "secretKey" and old.get(name) != new.get(name)
    ]
    return [*changed, "secretKey"] if new_secret else changed


@account.command(cls=AdminCommand)
def delete(
    ctx: typer.Context,
    access_key: AccessKeyArgument,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete an account, on all brokers. This cannot be undone.

    \b
    Examples:
      mqctl acl account delete order-service --dry-run
      mqctl acl account delete order-service -b broker-a --yes
    """
    session = session_of(ctx)
    if not dry_run:
        where = ", ".join(addresses_of(session, cluster, broker))
        confirm(session, f"Delete the account {access_key} on {where}. Go on?", yes)
    _delete(session, access_key, cluster, broker, dry_run)


def _delete(session: Session, access_key: str, cluster: str | None, broker: str | None, dry_run: bool) -> None:
    from mqctl.client.admin.acl import acl_config, delete_account, find_account
    from mqctl.errors import NotFound

    async def work(admin: Admin, address: str) -> None:
        if not dry_run:
            await delete_account(admin, address, access_key)
        elif find_account(await acl_config(admin, address), access_key) is None:
            raise NotFound(f"{address} has no account {access_key}")

    answers = everywhere(session, cluster, broker, work)
    rows = [{"brokerAddr": address, "accessKey": access_key, "changed": ["deleted"]} for address in answers.given]
    session.print_rows(CHANGED, rows)
    report_missing(session, answers.failed)
