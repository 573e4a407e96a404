"""mqadmin's command lines become ours."""

from __future__ import annotations

import shlex

import pytest

from mqctl.cli import NOUNS, build
from mqctl.commands.common import Session
from mqctl.commands.mqadmin.rows import NAMES, ROWS
from mqctl.commands.mqadmin.translate import translate
from mqctl.errors import ConfigError
from mqctl.exit import ExitCode
from mqctl.manual import LEFT_OUT, MQADMIN_4_9_7
from tests.cli.running import Cli


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
            "broker config set 'messageDelayLevel=1s 5s' --broker=b:1 --yes",
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


def test_the_whole_of_mqadmin_is_there_or_left_out_for_a_reason() -> None:
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    assert set(MQADMIN_4_9_7.split()) <= NAMES.keys()
    assert len(set(MQADMIN_4_9_7.split())) == 57
    of_5 = NAMES.keys() - set(MQADMIN_4_9_7.split()) - {"deleteAccessConfig", "getAccessConfigSubCommand"}
    assert not left_out & of_5
    assert len(left_out | of_5) == 44, "what 5.5.0 has more"


# Where a verb of ours is a value of mqadmin's.
VERB_IS_A_VALUE = {"updateorderconf"}
# Options that commands of ours insist on.
NEEDED = ("--topic", "--to", "--clients", "--file", "--key", "--queue")


@pytest.mark.parametrize("name", sorted(ROWS.keys() - VERB_IS_A_VALUE))
def test_every_row_ends_in_a_command_line_of_ours(name: str) -> None:
    """With all of its flags one after another; nothing is run."""
    old = ROWS[name]
    for flag, target in old.flags.items():
        letter = flag.partition(" ")[0]
        value = [] if target.endswith("!") else ["true" if "/" in target else "1"]
        needed = [
            word
            for other, goes_to in old.flags.items()
            if (goes_to.isupper() or goes_to in NEEDED) and other != flag
            for word in (f"-{other.partition(' ')[0]}", "1")
        ]
        args = translate([name, f"-{letter}", *value, *needed], NOUNS)
        root = build()
        context = root.make_context("mqctl", list(args), obj=Session())
        verb_name, verb, rest = root.resolve_command(context, args)
        while hasattr(verb, "commands") and rest and not rest[0].startswith("-"):
            verb_name, verb, rest = verb.resolve_command(context, rest)
        verb.make_context(verb_name, rest, parent=context)


def test_run(cli: Cli) -> None:
    cli.ok("updateSubGroup", "-c", "DefaultCluster", "-g", "legacy-group", "-r", "3")
    assert "retryMaxTimes                   3" in cli.ok("getConsumerConfig", "-g", "legacy-group").out
    assert "legacy-group" in cli.ok("consumerProgress").out
