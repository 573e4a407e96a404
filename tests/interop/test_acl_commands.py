"""Accounts: Apache's mqadmin against our broker, `mqctl acl` against Apache's broker with access control on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.client import (
    ConsumeFrom,
    Credentials,
    Message,
    MqError,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from mqctl.exit import ExitCode
from mqctl.remoting.bodies_acl import PlainAccessConfig
from mqctl.server.broker.admin.aclfiles import AclFiles
from tests.aio import in_loop
from tests.cli.running import Cli
from tests.interop.acting import mqadmin_in
from tests.peers import wire
from tests.peers.apache import ApacheBroker, ApacheNamesrv
from tests.peers.cache import require
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

ADMIN = {"MQCTL_ACCESS_KEY": "operators", "MQCTL_SECRET_KEY": "12345678"}


def test_mqadmin_keeps_accounts_at_our_broker(java49: ClientDriver, own_broker: OurBroker) -> None:
    at = ("-b", own_broker.address)
    perms = ("-i", "DENY", "-t", "topicA=PUB|SUB,topicB=SUB", "-g", "groupA=SUB", "-w", "10.0.0.*", "-m", "false")
    mqadmin_in(java49, own_broker, "updateAclConfig", *at, "-a", "RocketMQ", "-s", "12345678", *perms)
    mqadmin_in(java49, own_broker, "updateAclConfig", "-c", own_broker.cluster, "-a", "another1", "-s", "12345678")
    mqadmin_in(java49, own_broker, "updateGlobalWhiteAddr", *at, "-g", "10.1.0.1,10.2.0.*", "-p", "")
    shown = mqadmin_in(java49, own_broker, "getAclConfig", *at)
    assert "globalWhiteRemoteAddresses: [10.1.0.1, 10.2.0.*]" in shown
    values = [line.split(":", 1)[1].strip() for line in shown.splitlines() if line.startswith("  ")]
    first = ["RocketMQ", "******", "10.0.0.*", "false", "DENY", "", "[topicA=PUB|SUB, topicB=SUB]", "[groupA=SUB]"]
    assert values == [*first, "another1", "******", "", "false", "", "", "", ""]
    version = mqadmin_in(java49, own_broker, "clusterAclConfigVersion", "-c", own_broker.cluster)
    (row,) = [line.split() for line in version.splitlines() if line.startswith(own_broker.cluster)]
    assert row[1:5] == [own_broker.name, own_broker.address, str(own_broker.conf_file.parent / "plain_acl.yml"), "3"]
    mqadmin_in(java49, own_broker, "deleteAccessConfig", *at, "-a", "another1")
    assert "another1" not in mqadmin_in(java49, own_broker, "getAclConfig", *at)


class SecuredBroker(ApacheBroker):
    """Lets in only those with an account, of a file that our broker's code wrote."""

    def prepare(self) -> None:
        super().prepare()
        account = PlainAccessConfig(access_key="operators", secret_key="12345678", admin=True)
        AclFiles(self.workdir / "conf").put_account(account, 1_700_000_000_000)

    def is_ready(self) -> bool:
        return wire.registered(self.namesrv, self.address)


@pytest.fixture(scope="module")
def secured(apache_namesrv: ApacheNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    conf = {"aclEnable": "true"}
    name = "secured"
    folder = tmp_path_factory.mktemp(name)
    with require(SecuredBroker, "4.9.7", folder, apache_namesrv.address, name, name, conf=conf) as server:
        yield server


class Committing:
    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


def test_our_clients_at_a_broker_that_wants_signatures(secured: SecuredBroker, tmp_path: Path) -> None:
    cli = Cli({"NAMESRV_ADDR": secured.namesrv, "HOME": str(tmp_path), **ADMIN})
    cli.ok("topic", "update", "signed", "-c", secured.cluster, "-w", "2", "-r", "2")
    cli.ok("msg", "send", "signed", "by command")
    in_loop(send_and_receive)("signed", secured.namesrv, {"by command"})


async def send_and_receive(topic: str, namesrv: str, there: set[str]) -> None:
    me = Credentials(ADMIN["MQCTL_ACCESS_KEY"], ADMIN["MQCTL_SECRET_KEY"])
    async with Producer("nobody", namesrv, retries=0) as stranger:
        with pytest.raises(MqError, match="AclException"):
            await stranger.send(Message(topic, b"unsigned"))
    async with Producer("signers", namesrv, credentials=me) as producer:
        await producer.send(Message(topic, "größer".encode(), tags="a", keys=["k%1"], properties={"p": "ö"}))
        await producer.send_batch([Message(topic, b"b1"), Message(topic, b"b2")])
        await producer.send_oneway(Message(topic, b"oneway"))
    async with TransactionProducer("signers-tx", Committing(), namesrv, credentials=me) as transactions:
        await transactions.send_in_transaction(Message(topic, b"whole"))
    wanted = there | {"größer", "b1", "b2", "oneway", "whole"}

    read = PullConsumer("signed-pull", topic, namesrv, start=ConsumeFrom.FIRST, credentials=me)
    assert await _bodies(read, len(wanted)) == wanted
    received: asyncio.Queue[str] = asyncio.Queue()

    async def listener(message: ReceivedMessage) -> None:
        received.put_nowait(message.body.decode())

    async with PushConsumer("signed-push", listener, topic, namesrv, start=ConsumeFrom.FIRST, credentials=me):
        assert {await received.get() for _ in wanted} == wanted


async def _bodies(consumer: PullConsumer, count: int) -> set[str]:
    found: list[str] = []
    async with consumer:
        while len(found) < count:
            found += [message.body.decode() for message in await consumer.poll()]
    return set(found)


def test_our_commands_at_a_broker_that_wants_signatures(secured: SecuredBroker, tmp_path: Path) -> None:
    variables = {"NAMESRV_ADDR": secured.namesrv, "HOME": str(tmp_path)}
    at = ("-c", secured.cluster)
    ended = Cli(variables)("acl", "account", "list", *at)
    assert ended.status == ExitCode.REFUSED
    assert "MQCTL_ACCESS_KEY" in ended.err
    assert Cli({**variables, **ADMIN, "MQCTL_SECRET_KEY": "wrong"})("topic", "update", "t", *at).status != 0

    cli = Cli({**variables, **ADMIN})
    cli.ok("acl", "account", "update", "orderService", "--secret-key", "87654321", "--topic-perms", "a=PUB", *at)
    cli.ok("acl", "account", "update", "orderService", "--admin", "--group-perms", "g=SUB,h=DENY", "--yes", *at)
    cli.ok("acl", "account", "update", "orderService", "--default-topic-perm", "SUB", "--yes", *at)
    rows = cli.ok("acl", "account", "list", "--show-secrets", "-o", "json", *at).json
    (account,) = [row for row in rows if row["accessKey"] == "orderService"]
    assert (account["secretKey"], account["admin"], account["defaultTopicPerm"]) == ("87654321", True, "SUB")
    assert (account["topicPerms"], account["groupPerms"]) == (["a=PUB"], ["g=SUB", "h=DENY"])
    service = Cli({**variables, "MQCTL_ACCESS_KEY": "orderService", "MQCTL_SECRET_KEY": "87654321"})
    service.ok("topic", "update", "secured-topic", *at)
    [version] = cli.ok("clusterAclConfigVersion", *at, "--output", "json").json
    assert version["counter"] == 4
    cli.ok("acl", "account", "delete", "orderService", "--yes", *at)
    assert service("topic", "update", "secured-topic", *at).status != 0
    cli.ok("updateGlobalWhiteAddr", "-g", "127.0.0.1", *at)
    assert cli.ok("acl", "whitelist", "list", "-o", "json", *at).json[0]["addresses"] == ["127.0.0.1"]
