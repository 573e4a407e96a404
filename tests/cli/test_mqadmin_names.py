"""mqadmin's command lines become ours."""

from __future__ import annotations

import shlex

import pytest

from mqctl.cli import NOUNS, build
from mqctl.commands.common import Session
from mqctl.commands.mqadmin import leftout
from mqctl.commands.mqadmin.rows import NAMES, ROWS
from mqctl.commands.mqadmin.translate import Old, translate
from mqctl.errors import ConfigError
from mqctl.exit import ExitCode
from mqctl.manual import MQADMIN_4_9_7
from tests.cli.running import Cli
from tests.cli.test_topic import registered_but_gone
from tests.peers.ours import OurBroker, OurNamesrv


@pytest.mark.parametrize(
    ("old", "ours"),
    [
        ("consumerProgress", "consumer progress"),
        ("CONSUMERPROGRESS -g G -s true -n a:1", "consumer progress G --clients --namesrv=a:1"),
        ("consumerProgress -s false --groupName=G", "consumer progress G"),
        ("consumerStatus -s -g G", "consumer status G --stacks"),
        ("cloneGroupOffset -d D -s S -t T -o true", "offset clone S D --force --yes"),
        ("resetOffsetByTime -g G -t T -s -1 -c", "offset reset G --topic=T --to=-1 --yes"),
        ("deleteSubGroup -c C -g G -r true", "consumer delete G --cluster=C --topics --offsets --yes"),
        ("updateSubGroup -c C -g G -s false", "consumer update G --cluster=C --disable --yes"),
        ("producer -b a:1", "producer list --broker=a:1"),
        ("producer -h", "producer -h"),
        ("producer list", "producer list"),
        ("consumerProgress -h", "consumer progress --help"),
        ("topic list", "topic list"),
        (
            "updateTopic -n a:1 -c C -t T -r8 -w 4 -p 6 -o true",
            "topic update T --namesrv=a:1 --cluster=C --read-queues=8 --write-queues=4 --perm=6 --order --yes",
        ),
        ("updatetopic -topic T --brokerAddr b:1", "topic update T --broker=b:1 --yes"),
        (
            "updateBrokerConfig -b b:1 -k messageDelayLevel -v '1s 5s'",
            "broker config set 'messageDelayLevel=1s 5s' --broker=b:1 --slaves --yes",
        ),
        ("updateKvConfig -s N -k K -v V=", "namesrv kv put N K V="),
        ("updateOrderConf -t T -m put -v a:1", "topic order put T a:1"),
        ("updateOrderConf -t delete -m get", "topic order get delete"),
        ("updateOrderConf -t T -m delete", "topic order delete T --yes"),
        ("updateTopicPerm -t T -p 4 -b a:1", "topic perm T 4 --broker=a:1 --yes"),
        ("statsAll -a", "topic stats --active --all"),
        ("getAccessConfigSubCommand -c C", "acl account list --cluster=C"),
        ("updateAclConfig -b a:1 -a K -s S -m true", "acl account update K --broker=a:1 --secret-key=S --admin --yes"),
        ("updateGlobalWhiteAddr -g 1.1.1.1 -c C", "acl whitelist set 1.1.1.1 --cluster=C --yes"),
        ("exportMetadata -c C -t -f DIR", "cluster export metadata --cluster=C --topics --folder=DIR"),
        ("startMonitoring", "monitor"),
        ("consumeMessage -t T", "msg print --max=128 T"),
        ("consumeMessage -t T -c 5", "msg print --max=128 T --max=5"),
        ("resetOffsetByTime -c C -g G -t T -s now", "offset reset G --topic=T --to=now --yes"),
        (
            "resetOffsetByTime -g G -t T -s 0 -b a:1 -q 3",
            "offset set G --topic=T --to-time=0 --broker=a:1 --queue=3 --yes",
        ),
        (
            "resetOffsetByTime -g G -t T -s 0 -q 3 -o 7 -b a:1",
            "offset set G --topic=T --queue=3 --to=7 --broker=a:1 --yes",
        ),
        ("skipAccumulatedMessage -g G -t T -c C", "offset skip G --topic=T --yes"),
        ("queryMsgByUniqueKey -t T -i I", "msg get I --topic=T"),
        ("queryMsgByUniqueKey -t T -i I -a", "msg query T --key=I"),
        ("queryMsgByUniqueKey -t T -i I -showAll -s 1 --endTime 2", "msg query T --key=I --since=1 --until=2"),
        ("queryMsgByOffset -t T -b B -i 1 -o 2 -r P", "msg get --topic=T --broker=B --queue=1 --offset=2"),
        ("updateBrokerConfig -c C -a true -k K -v V", "broker config set K=V --cluster=C --slaves --yes"),
        ("help", "--help"),
        ("help topic update", "topic update --help"),
        ("help consumerProgress", "consumer progress --help"),
        ("help producer", "producer --help"),
        ("broker -c FILE", "broker -c FILE"),
        ("", ""),
    ],
)
def test_translate(old: str, ours: str) -> None:
    assert translate(shlex.split(old), NOUNS) == shlex.split(ours)


@pytest.mark.parametrize("words", ["consumerProgress -z 1", "consumerProgress G", "consumerProgress -g"])
def test_what_mqadmin_does_not_take_either(offline: Cli, words: str) -> None:
    with pytest.raises(ConfigError):
        translate(words.split(), NOUNS)
    assert offline(*words.split()).status == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "updateStaticTopic -t T",
            "which is about static topics, whose queues move between brokers",
        ),
        ("UPDATEUSER", "accounts of 4.x are in `mqctl acl`"),
        ("help getBrokerEpoch", "which is about controllers"),
        ("updateTopic -t T -a +message.type=FIFO", "leaves out -a of mqadmin's updateTopic: attributes of topics"),
        ("updateSubGroup -g G --attributes +a=b", "attributes of groups are kept by brokers of 5.x"),
        ("resetOffsetByTime -g G -t T -s 0 -b a:1", "it counts together with `-q` only"),
        ("QUERYMSGBYKEY -t T -k K -p T", "an index of 4.x knows keys only"),
    ],
)
def test_what_is_left_out_is_said_with_the_reason(offline: Cli, words: str, reason: str) -> None:
    ended = offline(*words.split())
    assert ended.status == ExitCode.USAGE
    assert reason in ended.err


def test_help(offline: Cli) -> None:
    assert offline.ok("help").out == offline.ok("--help").out
    assert offline.ok("help", "updateTopic").out == offline.ok("topic", "update", "--help").out


def test_the_whole_of_mqadmin_is_there_or_left_out_for_a_reason() -> None:
    left_out = {name for names in leftout.COMMANDS.values() for name in names.split()}
    assert set(MQADMIN_4_9_7.split()) <= NAMES.keys()
    assert len(set(MQADMIN_4_9_7.split())) == 57
    of_5 = NAMES.keys() - set(MQADMIN_4_9_7.split()) - {"deleteAccessConfig", "getAccessConfigSubCommand"}
    assert not left_out & of_5
    assert len(left_out | of_5) == 44, "what 5.5.0 has more"
    assert leftout.FLAGS.keys() <= NAMES.keys()


# Where a verb of ours is a value of mqadmin's.
VERB_IS_A_VALUE = {"updateorderconf"}
# Options that commands of ours insist on.
NEEDED = ("--topic", "--to", "--clients", "--file", "--key", "--queue", "--to-time")


@pytest.mark.parametrize("name", sorted(ROWS.keys() - VERB_IS_A_VALUE))
def test_every_row_ends_in_a_command_line_of_ours(name: str) -> None:
    """With all of its flags one after another; nothing is run."""
    old = ROWS[name]
    for flag in old.flags:
        resolve(name, old, flag)
    for flags, other in old.instead.items():
        for flag in other.flags:
            resolve(name, other, flags[0], flag)


def resolve(name: str, old: Old, *flags: str) -> None:
    wanted = {flag: old.flags[flag] for flag in flags}
    wanted |= {flag: target for flag, target in old.flags.items() if target.isupper() or target in NEEDED}
    words = [word for flag, target in wanted.items() for word in (f"-{flag.partition(' ')[0]}", *value(target))]
    args = translate([name, *words], NOUNS)
    assert args[: len(old.command.split())] == old.command.split()
    root = build()
    context = root.make_context("mqctl", list(args), obj=Session())
    verb_name, verb, rest = root.resolve_command(context, args)
    while hasattr(verb, "commands") and rest and not rest[0].startswith("-"):
        verb_name, verb, rest = verb.resolve_command(context, rest)
    verb.make_context(verb_name, rest, parent=context)


def value(target: str) -> list[str]:
    if target.endswith(("!", "?")):
        return []
    return ["true" if "/" in target else "1"]


def test_run(cli: Cli) -> None:
    cli.ok("updateSubGroup", "-c", "DefaultCluster", "-g", "legacy-group", "-r", "3")
    assert "retryMaxTimes                   3" in cli.ok("getConsumerConfig", "-g", "legacy-group").out
    assert "legacy-group" in cli.ok("consumerProgress").out


def test_one_queue_is_moved(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("updateTopic", "-t", topic, "-b", broker.address, "-r", "2", "-w", "2")
    cli.ok("sendMessage", "-t", topic, "-p", "x", "-b", broker.name, "-i", "1")
    cli.ok("updateSubGroup", "-g", topic, "-b", broker.address)
    one_queue = ("resetOffsetByTime", "-g", topic, "-t", topic, "-b", broker.address, "-q", "1")

    def offsets() -> list[int | None]:
        return [row["offset"] for row in cli.ok("offset", "get", topic, "-t", topic, "-o", "json").json]

    cli.ok(*one_queue, "-s", "now")
    assert offsets() == [None, 1]
    cli.ok(*one_queue, "-s", "now", "-o", "0")
    assert offsets() == [None, 0]
    assert cli(*one_queue, "-s", "now", "-o", "2").status == ExitCode.USAGE


def test_settings_of_slaves(cli: Cli, namesrv: OurNamesrv, broker: OurBroker) -> None:
    """A cluster's only with -a; with -b whatever is at that address."""
    change = ("updateBrokerConfig", "-k", "fileReservedTime", "-v", "72")
    with registered_but_gone(namesrv, broker.name, broker.cluster, broker_id=1) as slave:
        cli.ok(*change, "-c", broker.cluster)
        ended = cli(*change, "-c", broker.cluster, "-a", "true")
        assert (ended.status, slave in ended.err) == (ExitCode.PARTIAL, True), ended
        assert cli(*change, "-b", slave).status == ExitCode.UNREACHABLE
        cli.ok(*change, "-b", broker.address)
