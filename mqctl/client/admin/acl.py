"""Accounts of RocketMQ 4's access control, as brokers keep them in plain_acl.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mqctl.client.admin import Admin
from mqctl.errors import ConfigError, MqError, NotFound, RequestTimeout
from mqctl.remoting.bodies import DataVersion
from mqctl.remoting.bodies_acl import MASKED, AclConfig, PlainAccessConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers_admin import AccessKeyHeader, AccountHeader, WhiteAddressesHeader

# By RocketMQ's names, as PlainAccessConfig has them.
Account = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AclVersion:
    """What a broker says of its files: by path, which state they are in."""

    cluster: str
    broker_name: str
    address: str
    files: dict[str, DataVersion]


async def acl_config(admin: Admin, address: str) -> AclConfig:
    return admin.decode(AclConfig, await _ask(admin, address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG))


async def acl_version(admin: Admin, address: str) -> AclVersion:
    fields = (await _ask(admin, address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)).fields()
    try:
        files = msgspec.json.decode(fields.get("allAclFileVersion", "{}"), type=dict[str, DataVersion])
    except msgspec.MsgspecError as error:
        raise MqError(f"{address} answered with versions that cannot be read: {error}") from None
    return AclVersion(fields.get("clusterName", ""), fields.get("brokerName", ""), address, files)


async def _ask(admin: Admin, address: str, code: RequestCode) -> Command:
    try:
        return await admin.call(address, Command(code))
    except RequestTimeout as error:
        # Apache's broker then fails inside and forgets to say so.
        raise RequestTimeout(error.message, hint="Apache's brokers do not answer this while aclEnable is off") from None


def find_account(config: AclConfig, access_key: str) -> Account | None:
    for account in config.plain_access_configs:
        if account.access_key == access_key:
            found: Account = msgspec.to_builtins(account)
            return {name: value for name, value in found.items() if value is not None}
    return None


async def change_account(
    admin: Admin, address: str, access_key: str, wish: Mapping[str, Any], *, dry_run: bool
) -> tuple[Account | None, Account | None]:
    """How the account was and is. What is not wished stays as it is: Apache's broker needs to be told the secret again,
    and takes away the right of an administrator that is not repeated. Raises ConfigError for a new one without
    a secret."""
    before = find_account(await acl_config(admin, address), access_key)
    wanted = {"accessKey": access_key, **(before or {}), **wish}
    if before is None and not wanted.get("secretKey"):
        raise ConfigError(f"{access_key} is a new account and needs a secret", hint="give it with --secret-key")
    if dry_run:
        return before, wanted
    account = msgspec.convert(wanted, PlainAccessConfig)
    header = AccountHeader(
        access_key=access_key,
        secret_key=None if account.secret_key == MASKED else account.secret_key,
        white_remote_address=account.white_remote_address,
        admin=account.admin,
        default_topic_perm=account.default_topic_perm,
        default_group_perm=account.default_group_perm,
        topic_perms=_joined(account.topic_perms),
        group_perms=_joined(account.group_perms),
    )
    await admin.call(address, Command(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, ext=header_fields(header)))
    return before, find_account(await acl_config(admin, address), access_key)


def _joined(perms: list[str] | None) -> str | None:
    return None if perms is None else ",".join(perms)


async def delete_account(admin: Admin, address: str, access_key: str) -> None:
    """Raises NotFound for one that is not there."""
    if find_account(await acl_config(admin, address), access_key) is None:
        raise NotFound(f"{address} has no account {access_key}")
    header = AccessKeyHeader(access_key)
    await admin.call(address, Command(RequestCode.DELETE_ACL_CONFIG, ext=header_fields(header)))


async def set_white_addresses(admin: Admin, address: str, addresses: list[str], file: str | None) -> None:
    # Apache's broker insists on a file, and takes an empty name as plain_acl.yml.
    header = WhiteAddressesHeader(",".join(addresses), file or "")
    await admin.call(address, Command(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ext=header_fields(header)))
