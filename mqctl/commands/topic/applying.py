"""`mqctl topic apply`: many topics at once, as a file describes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen_masters, one_of
from mqctl.commands.telling import Counting, report_missing
from mqctl.commands.topic.shared import app, config_text, write_down
from mqctl.errors import ConfigError, MqError
from mqctl.limits import MAX_QUEUES
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.topics import Ordered, Outcome, Wish
    from mqctl.remoting.bodies import TopicConfig

APPLIED: Final = [
    Column("topic"),
    Column("brokerName", "BROKER"),
    Column("before", show=config_text),
    Column("after", show=config_text),
]
FIELDS: Final = {"topicName", "readQueueNums", "writeQueueNums", "perm", "order"}
# Written by RocketMQ's own tools, and of no use to a topic that is created.
IGNORED: Final = {"topicFilterType", "topicSysFlag", "attributes", "multiTopicId"}


@app.command(cls=AdminCommand)
def apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", metavar="FILE", help="JSON or YAML; - for stdin.")],
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create and change topics so that they are as a file says.

    The file holds a list of objects with RocketMQ's names: topicName, and of readQueueNums, writeQueueNums, perm and
    order those that matter; the others stay as they are. Topics that are not in the file are left alone.

    \b
    Examples:
      mqctl topic apply -f topics.yaml --dry-run
      mqctl topic apply -f topics.json -c DefaultCluster --yes
    """
    one_of(cluster, broker)
    session = session_of(ctx)
    text = session.env.stdin.read() if str(file) == "-" else _read(file)
    wishes = dict(_wish(entry) for entry in _entries(text, str(file)))
    brokers = session.ask(lambda admin: chosen_masters(admin, cluster, broker))
    plan = session.ask(lambda admin: _apply(admin, wishes, brokers, dry_run=True))
    changing = [outcome for outcome in plan if outcome.error is None and outcome.before != outcome.after]
    done, missing = plan, dict[str, MqError]()
    if not dry_run and changing:
        confirm(session, f"Create or change {len(changing)} topics on {', '.join(brokers)}. Go on?", yes)
        everywhere = cluster is None and broker is None
        done, missing = _carry_out(session, wishes, brokers, changing, everywhere)
    rows = [_row(outcome) for outcome in done if outcome.error is None and outcome.before != outcome.after]
    session.print_rows(APPLIED, rows)
    session.env.say(f"{len(rows)} changed, {len(done) - len(rows)} not")
    report_missing(session, {**missing, **{_place(one): one.error for one in done if one.error is not None}})


def _carry_out(
    session: Session, wishes: dict[str, Wish], brokers: dict[str, str], changing: list[Outcome], everywhere: bool
) -> tuple[list[Outcome], dict[str, MqError]]:
    """What became of each topic, and which name servers were not told of the order."""
    orders, missing = session.ask(lambda admin: _set_orders(admin, changing, everywhere))
    with Counting(session, "changed", len(changing)) as told:
        done = session.ask(lambda admin: _apply(admin, wishes, brokers, dry_run=False, told=told))
    write_down(session, f"update of {len({one.topic for one in changing})} topics", done, orders)
    return done, missing


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from None


def _entries(text: str, source: str) -> list[Any]:
    import yaml

    try:
        found = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, list):
        raise ConfigError(f"{source} does not hold a list of topics")
    return found


def _wish(entry: Any) -> tuple[str, Wish]:
    from mqctl.client.admin.topics import Wish, parse_perm
    from mqctl.client.naming import check_topic

    if not isinstance(entry, dict) or not isinstance(entry.get("topicName"), str):
        raise ConfigError(f"not a topic: {entry!r}", hint="each needs at least a topicName")
    topic = entry["topicName"]
    check_topic(topic)
    unknown = entry.keys() - FIELDS - IGNORED
    if unknown:
        raise ConfigError(f"{topic}: unknown {', '.join(sorted(unknown))}", hint=f"known: {', '.join(sorted(FIELDS))}")
    for field in ("readQueueNums", "writeQueueNums"):
        if not _fits(entry.get(field)):
            raise ConfigError(f"{topic}: {field} is no number of queues", hint=f"write one from 0 to {MAX_QUEUES}")
    if not isinstance(entry.get("order"), bool | None):
        raise ConfigError(f"{topic}: order is neither true nor false")
    try:
        perm = parse_perm(str(entry["perm"])) if "perm" in entry else None
    except ValueError as error:
        raise ConfigError(f"{topic}: {error}") from None
    return topic, Wish(entry.get("readQueueNums"), entry.get("writeQueueNums"), perm, entry.get("order"))


def _fits(queues: Any) -> bool:
    """For Python true and false are numbers, too."""
    return queues is None or (type(queues) is int and 0 <= queues <= MAX_QUEUES)


async def _apply(
    admin: Admin, wishes: dict[str, Wish], brokers: dict[str, str], *, dry_run: bool, told: Any = None
) -> list[Outcome]:
    from mqctl.client.admin.topics import change_topics

    return await change_topics(admin, wishes, brokers, dry_run=dry_run, told=told)


async def _set_orders(
    admin: Admin, changing: list[Outcome], everywhere: bool
) -> tuple[list[Ordered], dict[str, MqError]]:
    """Brokers of 4.9.7 take this from the name servers, so it comes first. Those that failed are there by address, or
    under the topic's name where all did."""
    from mqctl.client.admin.topics import order_of, set_order

    wanted: dict[str, dict[str, TopicConfig]] = {}
    for outcome in changing:
        before, after = outcome.before, outcome.after
        if after is not None and after.order != (before is not None and before.order):
            wanted.setdefault(outcome.topic, {})[outcome.broker_name] = after
    orders: list[Ordered] = []
    missing: dict[str, MqError] = {}
    for topic, configs in wanted.items():
        try:
            orders.append(await set_order(admin, topic, order_of(configs, everywhere=everywhere)))
            missing.update(orders[-1].failed)
        except MqError as error:
            missing[f"the order of {topic}"] = error
    return orders, missing


def _place(outcome: Outcome) -> str:
    return f"{outcome.topic} on {outcome.broker_name}" if outcome.topic else outcome.broker_name


def _row(outcome: Outcome) -> dict[str, Any]:
    from mqctl.commands.topic.shared import config_row

    return {
        "topic": outcome.topic,
        "brokerName": outcome.broker_name,
        "before": config_row(outcome.before),
        "after": config_row(outcome.after),
    }
