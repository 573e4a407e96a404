"""Accounts of access control: what the broker keeps in plain_acl.yml, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mqctl.server.broker.admin.accounts import check_address
from mqctl.server.broker.app import Broker
from tests.aio import in_loop
from tests.unit.server.broker.harness import House, broker_config, running

UPDATE, DELETE, VERSION, WHITE, GET = 50, 51, 52, 53, 54

# As RocketMQ's distribution has it; the password is a number for YAML.
FILE = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  topicPerms: [topicA=DENY, topicB=PUB|SUB]
  ours: kept
"""


@in_loop
async def test_accounts_come_and_go(tmp_path: Path) -> None:
    file = tmp_path / "config/plain_acl.yml"
    async with running(tmp_path) as house:
        client = house.client()
        assert await client.json(GET) == {"globalWhiteAddrs": [], "plainAccessConfigs": []}
        assert json.loads((await client.ok(VERSION)).fields()["allAclFileVersion"]) == {}
        account = {"accessKey": "accountA", "secretKey": "geheim-1", "admin": "true", "topicPerms": "a=PUB,b=SUB|PUB"}
        await client.ok(UPDATE, account)
        await client.ok(UPDATE, {"accessKey": "accountB", "secretKey": "geheim-2", "whiteRemoteAddress": "10.0.0.*"})
        await client.ok(UPDATE, {"accessKey": "accountB", "defaultGroupPerm": "SUB"})
        await client.ok(WHITE, {"globalWhiteAddrs": "10.0.0.1,10.1.1-5.*"})
        assert await client.json(GET) == {
            "globalWhiteAddrs": ["10.0.0.1", "10.1.1-5.*"],
            "plainAccessConfigs": [
                {"accessKey": "accountA", "secretKey": "******", "admin": True, "topicPerms": ["a=PUB", "b=SUB|PUB"]},
                {
                    "accessKey": "accountB",
                    "secretKey": "******",
                    "whiteRemoteAddress": "10.0.0.*",
                    "admin": False,
                    "defaultGroupPerm": "SUB",
                },
            ],
        }
        kept = yaml.safe_load(file.read_text())["accounts"]
        assert [one["secretKey"] for one in kept] == ["geheim-1", "geheim-2"]
        assert file.stat().st_mode & 0o777 == 0o600
        fields = (await client.ok(VERSION)).fields()
        assert json.loads(fields["version"])["counter"] == 4
        assert list(json.loads(fields["allAclFileVersion"])) == [str(file)]
        assert (fields["brokerName"], fields["clusterName"]) == ("broker-a", "DefaultCluster")
        await client.ok(DELETE, {"accessKey": "accountA"})
        assert [one["accessKey"] for one in (await client.json(GET))["plainAccessConfigs"]] == ["accountB"]


@in_loop
async def test_files_that_people_wrote(tmp_path: Path) -> None:
    """Beside the broker's own file; those in acl are changed where they are, and what is unknown stays."""
    (tmp_path / "acl").mkdir()
    (tmp_path / "plain_acl.yml").write_text(FILE)
    more = tmp_path / "acl/team.yaml"
    more.write_text("accounts: [{accessKey: teamAccount, secretKey: 1234567.0}]")
    conf = tmp_path / "broker.conf"
    conf.write_text("")
    broker = Broker(broker_config(tmp_path / "store"), config_file=conf)
    await broker.start()
    house = House(broker)
    try:
        client = house.client()
        found = (await client.json(GET))["plainAccessConfigs"]
        assert [one["accessKey"] for one in found] == ["teamAccount", "RocketMQ"]
        await client.ok(UPDATE, {"accessKey": "teamAccount", "admin": "true"})
        await client.ok(UPDATE, {"accessKey": "RocketMQ", "defaultTopicPerm": "PUB"})
        await client.ok(WHITE, {"globalWhiteAddrs": "*", "aclFileFullPath": str(more)})
        assert yaml.safe_load(more.read_text())["globalWhiteRemoteAddresses"] == ["*"]
        kept = yaml.safe_load((tmp_path / "plain_acl.yml").read_text())
        assert kept["globalWhiteRemoteAddresses"] == ["10.10.103.*"]
        assert kept["accounts"][0] | {"admin": False} == {
            **yaml.safe_load(FILE)["accounts"][0],
            "defaultTopicPerm": "PUB",
        }
    finally:
        await house.close_clients()
        await broker.stop()


@in_loop
async def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        for code, fields, failure, reason in (
            (UPDATE, {"accessKey": "short", "secretKey": "12345678"}, 209, "accessKey must be longer than 6"),
            (UPDATE, {"accessKey": "longEnough"}, 209, "secretKey must be longer than 6"),
            (UPDATE, {"accessKey": "longEnough", "secretKey": "12345678", "topicPerms": "t=ALL"}, 209, "no permission"),
            (UPDATE, {"accessKey": "longEnough", "secretKey": "12345678", "groupPerms": "g"}, 209, "no permission"),
            (UPDATE, {"accessKey": "longEnough", "secretKey": "12345678", "whiteRemoteAddress": "x"}, 209, "address"),
            (UPDATE, {"accessKey": "longEnough", "secretKey": "x" * 2_000_000}, 209, "more than 32768 characters"),
            (UPDATE, {}, 1, "accessKey"),
            (DELETE, {"accessKey": "nobody"}, 210, "no account nobody"),
            (WHITE, {"globalWhiteAddrs": "10.0.0.300"}, 211, "no address"),
            (WHITE, {"globalWhiteAddrs": "*", "aclFileFullPath": str(tmp_path / "x.yml")}, 211, "not one of"),
        ):
            answer = await client.ask(code, fields)
            assert answer.code == failure, (fields, answer.remark)
            assert reason in (answer.remark or ""), answer.remark
        assert not list((tmp_path / "config").glob("*.yml"))
        for text in ("accounts: {", "- 1", "accounts: [1]", "accounts: 5", "globalWhiteRemoteAddresses: 7"):
            (tmp_path / "config/plain_acl.yml").write_text(text)
            answer = await client.ask(GET)
            assert (answer.code, "plain_acl.yml" in (answer.remark or "")) == (1, True)


@pytest.mark.parametrize(
    "text", ["", "*", "10.0.0.1", "10.0.0.*", "10.0.*.*", "10.0.0.1-20", "10.0.0.{1,2}", "1.1.1.1,2.2.2.2", "fe80::1",
             "1050:0:0:0:5:600:300c:*", "1050:0:0:0:5:600:300c:1-200", "1050::0005:0600:300c:{1,2}"]
)  # fmt: skip
def test_addresses_that_rocketmq_takes(text: str) -> None:
    check_address(text)


@pytest.mark.parametrize("text", ["10.0.0", "*.0.0.1", "10.0.0.256", "10.0.0.{}", "host", "1.1.1.1,x", "10.0.0.0/8"])
def test_addresses_that_it_does_not(text: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        check_address(text)
