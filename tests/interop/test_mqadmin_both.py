"""mqadmin's command lines, given to Apache's mqadmin 4.9.7 and to mqctl, against Apache's servers 4.9.7 and ours.

Both tools must find the same facts at both servers; most are rows of the tables in bothtools/. What changes something
is done by each tool once, to a topic and groups of its own; afterwards both must see what became of it.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mqctl.commands.mqadmin import leftout
from mqctl.commands.mqadmin.rows import NAMES
from mqctl.manual import MQADMIN_4_9_7
from mqctl.times import time_text
from tests.cli.running import Cli
from tests.interop.acting import start_consumer, start_producer, wait_for_producer
from tests.interop.bothtools.changing import CHANGES, MOVING, Change, works
from tests.interop.bothtools.finding import cells, fields, matches
from tests.interop.bothtools.reading import BODIES, GROUP, READS, TOPIC
from tests.interop.bothtools.running import BROKER, CLUSTER, NOT_FOUND, TOOLS, AnyBroker, Row, Site
from tests.peers.apache import mqadmin_line
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["our_broker", "apache_broker"])
def site(request: pytest.FixtureRequest, java49: ClientDriver, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With the topics and the group that the tables speak of."""
    broker: AnyBroker = request.getfixturevalue(request.param)
    cli = Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path_factory.mktemp("home"))})
    names = {
        "address": broker.address,
        "port": broker.address.rpartition(":")[2],
        "namesrv_port": broker.namesrv.rpartition(":")[2],
    }
    found = Site(broker, java49, cli, names)
    found.make_topics(TOPIC, MOVING, f"%RETRY%{GROUP}")
    for number, body in enumerate(BODIES):
        place = f"--queue {number % 2}"
        found.mqctl(f"msg send {MOVING} {body} {place}")
        [sent] = found.mqctl(f"msg send {TOPIC} {body} {place} --tag {'ab'[number // 2]} --key k{number}")
        [stored] = found.mqctl(f"msg get {sent['offsetMsgId']}")
        kept = {"id": "msgId", "offset": "offsetMsgId", "log": "commitLogOffset", "stored": "storeTimestamp"}
        names |= {f"{name}{number}": str(stored[field]) for name, field in kept.items()}
    found.mqctl(f"consumer update {GROUP} --retry-max 7")
    for queue, offset in enumerate((1, 2)):
        found.mqctl(f"offset set {GROUP} -t {TOPIC} -q {queue} --to {offset} --yes")
    return found


def both(site: Site, row: Row) -> None:
    assert {tool: site.found(tool, row) for tool in TOOLS} == dict.fromkeys(TOOLS, site.expected(row))


def until(happened: Callable[[], bool], seconds: float = 30.0) -> None:
    """For what clients and brokers do by themselves; every question takes a moment."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"it has not happened after {seconds} s"


@pytest.fixture
def own(site: Site) -> Site:
    """With names that nothing else has."""
    number = next(_numbers)
    return site.naming(**{name: f"BothTools{name.title()}{number}" for name in ("topic", "group", "other")})


@pytest.mark.parametrize("row", READS, ids=lambda row: row.line)
def test_both_read_the_same(site: Site, row: Row) -> None:
    both(site, row)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row.line)
def test_both_see_what_each_changes(own: Site, change: Change, tool: str) -> None:
    own.make_topics(*change.topics)
    for line in change.first:
        own.mqctl(line)
    try:
        assert own.found(tool, change.row) == own.expected(change.row)
        for row in change.then:
            both(own, row)
    finally:
        for line in change.last:
            own.mqctl(line)


# -- what does not fit into a table ---------------------------------------------------------------------

CLIENTS: Final = (
    Row(
        "consumerConnection -g {group}",
        matches(r"^(\S+) +\S+:\d+ +(JAVA) +(V\S+)$"),
        fields("clientId", "language", "version"),
        [["{consumer}", "JAVA", "V4_9_7"]],
    ),
    Row(
        "producerConnection -g {other} -t {topic}",
        cells("0001", 1, 3, 4),
        fields("clientId", "language", "version"),
        [["{producer}", "JAVA", "V4_9_7"]],
    ),
    Row(
        "producer -b {address}",
        matches(r"producer group \((BothTools\w+)\) instance : clientId=([^,]+),"),
        lambda rows: [[row["group"], row["clientId"]] for row in rows if row["group"].startswith("BothTools")],
        [["{other}", "{producer}"]],
    ),
    Row(
        "consumerStatus -g {group}",
        matches(r"^\d+ +(\S+) +(V\S+)"),
        fields("clientId", "version"),
        [["{consumer}", "V4_9_7"]],
    ),
    Row(
        "consumerStatus -g {group} -i {consumer}",
        matches(rf"^(BothTools\S+) +{BROKER} +(\d+) +ProcessQueueInfo"),
        lambda rows: [[row["topic"], row["queueId"]] for row in rows if row["topic"].startswith("BothTools")],
        [["{topic}", 0], ["{topic}", 1]],
    ),
    Row(
        "queryMsgById -i {sent} -g {group} -d {consumer}",
        matches(r"consumeResult=(\w+)"),
        lambda rows: [row["consumeResult"] for row in rows],
        ["CR_SUCCESS"],
    ),
)


def test_clients(own: Site, java49: ClientDriver) -> None:
    topic, group, producers = (own.names[name] for name in ("topic", "group", "other"))
    own.make_topics(topic, f"%RETRY%{group}")
    producer = start_producer(java49, own.broker, producers)
    consumer = start_consumer(java49, own.broker, topic, group)
    sent = java49.call("send", name="p", topic=topic, body=b"x")
    java49.wait_messages("c", 1)
    wait_for_producer(own.broker, producers)
    named = own.naming(consumer=consumer["clientId"], producer=producer["clientId"], sent=sent["offsetMsgId"])
    for row in CLIENTS:
        both(named, row)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_trace_that_either_leaves_is_found_by_both(own: Site, tool: str) -> None:
    own.make_topics("{topic}")
    sending = Row("sendMessage -t {topic} -p x -m true", cells(BROKER, 3), fields("msgId"), None)
    [[msg_id]] = own.found(tool, sending)
    tracing = Row(
        f"queryMsgTraceById -i {msg_id}",
        lambda text: cells("Pub", 0, -1)(text) or NOT_FOUND,
        fields("kind", "status"),
        [["Pub", "success"]],
    )
    until(lambda: NOT_FOUND not in [own.found(each, tracing) for each in TOOLS])
    both(own, tracing)


def test_the_oldest_of_messages_with_the_same_id(own: Site) -> None:
    """mqadmin 4.9.7 shows no more even with -a, mqctl shows all, as mqadmin 5.x does."""
    own.make_topics("{topic}")
    own.found("mqadmin", Row("checkMsgSendRT -t {topic} -a 3 -s 16", str.split, list, None))
    stored = own.mqctl("printMsg -t {topic}")
    [msg_id] = {row["msgId"] for row in stored}
    looking = f"queryMsgByUniqueKey -t {{topic}} -i {msg_id}"
    times = sorted(row["storeTimestamp"] for row in stored)
    every = Row(f"{looking} -a", str.split, lambda rows: [row["storeTimestamp"] for row in rows], times)
    until(lambda: bool(own.found("mqctl", every) == own.expected(every)))  # the index comes a moment after the log
    oldest = Row(
        looking,
        matches(r"^Store Timestamp: +(.+)$"),
        lambda rows: [time_text(row["storeTimestamp"]).replace(".", ",") for row in rows],
        [time_text(times[0]).replace(".", ",")],
    )
    both(own, oldest)


def test_response_times(site: Site) -> None:
    """mqadmin measures again and again until it is stopped."""
    line = mqadmin_line("4.9.7", site.broker.namesrv, "clusterRT", "-a", "3", "-s", "16", begins=CLUSTER)
    [row] = [row for row in site.mqctl("clusterRT -a 3 -s 16") if row["brokerName"] == BROKER]
    by_mqadmin = cells(CLUSTER, 1, 3, 4)(line)
    assert by_mqadmin == [[BROKER, "3", "0"]]
    assert [row["brokerName"], row["successCount"], row["failCount"]] == [BROKER, 3, 0]


def test_exports(site: Site, tmp_path: Path) -> None:
    def read(tool: str, name: str) -> Any:
        return json.loads((tmp_path / tool / name).read_text())

    for what in ("Metadata", "Configs", "Metrics"):
        for tool in TOOLS:
            site.found(tool, Row(f"export{what} -c {CLUSTER} -f {tmp_path / tool}", str.split, list, None))
    topics = [read(tool, "metadata.json")["topicConfigTable"][TOPIC] for tool in TOOLS]
    assert topics[0] == topics[1]
    groups = [read(tool, "metadata.json")["subscriptionGroupTable"][GROUP] for tool in TOOLS]
    assert groups[0] == groups[1]
    theirs, ours = (read(tool, "configs.json") for tool in TOOLS)
    assert theirs["clusterScale"] == ours["clusterScale"]
    assert theirs["brokerConfigs"][BROKER].items() <= ours["brokerConfigs"][BROKER].items()
    theirs, ours = (read(tool, "metrics.json") for tool in TOOLS)
    assert theirs["evaluateReport"][BROKER].keys() == ours["evaluateReport"][BROKER].keys()


ACCOUNT: Final = Row(
    "getAclConfig -b {address}",
    matches(r"^  (accessKey|defaultTopicPerm|topicPerms) *: (\S+)$"),
    lambda rows: sorted(
        [name, f"[{', '.join(row[name])}]" if name == "topicPerms" else row[name]]
        for row in rows
        for name in ("accessKey", "defaultTopicPerm", "topicPerms")
    ),
    [["accessKey", "orderService"], ["defaultTopicPerm", "DENY"], ["topicPerms", "[a=PUB]"]],
)


@pytest.mark.parametrize("tool", TOOLS)
def test_accounts(java49: ClientDriver, own_broker: OurBroker, tool: str, tmp_path: Path) -> None:
    """Apache's broker keeps none unless it enforces them: see test_acl_commands.py."""
    cli = Cli({"NAMESRV_ADDR": own_broker.namesrv, "HOME": str(tmp_path)})
    site = Site(own_broker, java49, cli, {"address": own_broker.address})
    site.found(tool, works("updateAclConfig -b {address} -a orderService -s 12345678 -i DENY -t a=PUB"))
    both(site, ACCOUNT)
    site.found(tool, works("updateGlobalWhiteAddr -b {address} -g 10.1.0.1"))
    counted = fields("brokerName", "counter")
    line = f"clusterAclConfigVersion -c {own_broker.cluster}"
    both(site, Row(line, cells(own_broker.cluster, 1, 4), counted, [[own_broker.name, 2]]))
    site.found(tool, works("deleteAclConfig -b {address} -a orderService"))
    both(site, Row(ACCOUNT.line, ACCOUNT.theirs, ACCOUNT.ours, []))


# Run above, though not from a table.
ONE_BY_ONE: Final = """
clusterAclConfigVersion clusterRT deleteAclConfig exportConfigs exportMetadata exportMetrics getAclConfig
queryMsgTraceById updateAclConfig updateGlobalWhiteAddr
"""
# Prints nothing, and does not end.
NOT_RUN: Final = "startMonitoring"


def test_no_command_is_forgotten() -> None:
    rows = [*READS, *CLIENTS, *(change.row for change in CHANGES)]
    run = {row.line.split()[0] for row in rows} | set(ONE_BY_ONE.split())
    assert run | {NOT_RUN} == set(MQADMIN_4_9_7.split())


_FLAG: Final = re.compile(r"^ +(?:-(\w),|   )--(\S+(?: \w+)?) *(<arg>)?", re.MULTILINE)


@pytest.mark.parametrize("kind", ["java49", "java55"])
def test_no_flag_is_forgotten(kind: str, request: pytest.FixtureRequest) -> None:
    """What mqadmin's help lists is translated or left out for a reason, and has a value or none with mqctl, too."""
    client: ClientDriver = request.getfixturevalue(kind)
    for name, old in NAMES.items():
        rows = (old, *old.instead.values())
        known = {flag.split()[0]: target for row in rows for flag, target in row.flags.items()}
        left_out = {"h", "n", *(flag.split()[0] for flag in leftout.flags_of(name))}
        for letter, long, value in _FLAG.findall(client.call("mqadmin", args=["help", name])["stdout"]):
            flag = letter or long
            assert flag in known or flag in left_out, f"{name} -{flag}"
            takes = known.get(flag, "?")
            assert takes == "?" or takes.endswith("!") != bool(value), f"{name} -{flag}"
