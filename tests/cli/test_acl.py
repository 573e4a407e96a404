"""`mqctl acl` against a broker of ours, and requests that are signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.credentials import credentials_of
from mqctl.errors import ConfigError
from mqctl.exit import ExitCode
from mqctl.remoting.command import Command
from mqctl.remoting.signing import Credentials, sign
from tests.cli.running import Cli
from tests.peers.ours import OurBroker

SECRET = b"a-long-secret\n"


def test_an_account_from_its_beginning_to_its_end(cli: Cli, broker: OurBroker) -> None:
    update = ("acl", "account", "update", "orderService")
    assert cli(*update, "--admin").status == ExitCode.USAGE, "without a secret"
    options = ("--secret-key", "-", "--topic-perms", "orders=PUB|SUB, bills=SUB", "--default-topic-perm", "DENY")
    [would] = cli.ok(*update, *options, "--dry-run", "-o", "json", stdin=SECRET).json
    assert cli.ok("acl", "account", "list", "-o", "json").json == []
    [done] = cli.ok(*update, *options, "-o", "json", stdin=SECRET).json
    assert done == would | {"changed": done["changed"]}
    assert done["changed"][-1] == "secretKey"
    [changed] = cli.ok(*update, "--admin", "--yes", "-o", "json").json
    assert changed["changed"] == ["admin false -> true"]
    cli.ok(*update, "--default-group-perm", "SUB", "--yes")
    [account] = cli.ok("acl", "account", "list", "-o", "json").json
    assert account == {
        "brokerAddr": broker.address,
        "accessKey": "orderService",
        "secretKey": "******",
        "admin": True,
        "whiteRemoteAddress": None,
        "defaultTopicPerm": "DENY",
        "defaultGroupPerm": "SUB",
        "topicPerms": ["orders=PUB|SUB", "bills=SUB"],
        "groupPerms": None,
    }
    assert "a-long-secret" in (broker.conf_file.parent / "plain_acl.yml").read_text()
    delete = ("acl", "account", "delete", "orderService")
    assert cli(*delete).status == ExitCode.USAGE, "nobody agreed"
    cli.ok(*delete, "--dry-run")
    cli.ok(*delete, "--yes")
    ended = cli(*delete, "--yes")
    assert (ended.status, "has no account orderService" in ended.err) == (ExitCode.NOT_FOUND, True)


def test_white_addresses_and_versions(cli: Cli, broker: OurBroker) -> None:
    cli.ok("acl", "whitelist", "set", "10.0.0.1,10.1.0.*", "--yes")
    [row] = cli.ok("acl", "whitelist", "set", "127.0.0.1", "--dry-run", "-o", "json").json
    assert (row["before"], row["after"]) == (["10.0.0.1", "10.1.0.*"], ["127.0.0.1"])
    assert cli.ok("acl", "whitelist", "list", "-o", "json").json[0]["addresses"] == ["10.0.0.1", "10.1.0.*"]
    assert "no account needed from 10.0.0.1" in cli.ok("getAclConfig", "-b", broker.address).err
    [version] = cli.ok("acl", "version", "-o", "json").json
    assert version["file"] == str(broker.conf_file.parent / "plain_acl.yml")
    ended = cli("acl", "whitelist", "set", "nonsense", "--yes")
    assert (ended.status, "'nonsense' is no address" in ended.err) == (ExitCode.REFUSED, True)


def test_who_one_is(tmp_path: Path) -> None:
    assert credentials_of({}) is None
    found = Credentials("key", "secret")
    assert credentials_of({"MQCTL_ACCESS_KEY": "key", "MQCTL_SECRET_KEY": "secret"}) == found
    with pytest.raises(ConfigError, match="belong together"):
        credentials_of({"MQCTL_ACCESS_KEY": "key"})
    home = {"ROCKETMQ_HOME": str(tmp_path)}
    assert credentials_of(home) is None
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/tools.yml").write_text("accessKey: key\nsecretKey: 12345678\n")
    assert credentials_of(home) == Credentials("key", "12345678")
    (tmp_path / "conf/tools.yml").write_text("{")
    with pytest.raises(ConfigError, match="not YAML"):
        credentials_of(home)


def test_a_signature() -> None:
    """The value is openssl's, of RocketMQ6Tbody; that Apache's broker takes it is shown in tests/interop."""
    request = Command(17, ext={"topic": "T", "perm": "6", "_UNIQUE_KEY_QUERY": "true"}, body=b"body")
    sign(request, Credentials("RocketMQ", "12345678"))
    first = dict(request.fields())
    sign(request, Credentials("RocketMQ", "12345678"))
    assert request.fields() == first
    assert first["AccessKey"] == "RocketMQ"
    assert first["Signature"] == "kaHFzIVlrvy0JmjzlBL636/xVPM="
