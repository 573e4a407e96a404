"""Accounts of access control over the network: written down as RocketMQ writes them, and not enforced by this broker.

Apache's 4.9.7 broker answers some of these requests not at all while aclEnable is off, and the tool waits in vain.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from mqctl.errors import RequestFailed, StoreError
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DataVersion
from mqctl.remoting.bodies_acl import MASKED, PlainAccessConfig
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_admin import AccessKeyHeader, AccountHeader, WhiteAddressesHeader
from mqctl.server.broker.admin.aclfiles import AclFiles
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable

log = logging.getLogger(__name__)

T = TypeVar("T")


class AclAdmin:
    """Loop only; files are read and written in a thread, one change after the other."""

    def __init__(self, config: BrokerConfig, clock: Clock, config_file: Path | None) -> None:
        self._config = config
        self._clock = clock
        # In RocketMQ's distribution both lie in conf.
        self._files = AclFiles(config.root / "config" if config_file is None else config_file.absolute().parent)
        self._working = asyncio.Lock()

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: (AccountHeader, self.on_update),
            RequestCode.DELETE_ACL_CONFIG: (AccessKeyHeader, self.on_delete),
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (WhiteAddressesHeader, self.on_white_addresses),
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: (None, self.on_version),
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: (None, self.on_get),
        }

    async def on_update(self, connection: Connection, request: Command, header: AccountHeader) -> Command:
        account = PlainAccessConfig(
            access_key=header.access_key,
            secret_key=header.secret_key or None,
            white_remote_address=header.white_remote_address,
            admin=header.admin,
            default_topic_perm=header.default_topic_perm or None,
            default_group_perm=header.default_group_perm or None,
            topic_perms=_split(header.topic_perms),
            group_perms=_split(header.group_perms),
        )
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        await self._do(failed, lambda: self._files.put_account(account, self._now_ms()))
        log.info("%s: account %s is set", connection.peer_text, header.access_key)
        return request.reply()

    async def on_delete(self, connection: Connection, request: Command, header: AccessKeyHeader) -> Command:
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        if not await self._do(failed, lambda: self._files.delete_account(header.access_key, self._now_ms())):
            raise RequestFailed(failed, f"there is no account {header.access_key}")
        log.info("%s: account %s is deleted", connection.peer_text, header.access_key)
        return request.reply()

    async def on_white_addresses(
        self, connection: Connection, request: Command, header: WhiteAddressesHeader
    ) -> Command:
        addresses, file = _split(header.global_white_addrs) or [], header.acl_file_full_path
        await self._do(
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
            lambda: self._files.put_white_addresses(addresses, file, self._now_ms()),
        )
        log.info("%s: white addresses are %s", connection.peer_text, header.global_white_addrs)
        return request.reply()

    async def on_version(self, connection: Connection, request: Command, _: None) -> Command:
        versions = await self._do(ResponseCode.SYSTEM_ERROR, self._files.versions)
        fields = {
            "version": _json(versions.get(self._files.default, DataVersion())),
            "allAclFileVersion": _json({str(path): version for path, version in versions.items()}),
            "brokerName": self._config.broker_name,
            "brokerAddr": self._config.address,
            "clusterName": self._config.broker_cluster_name,
        }
        return request.reply(ext=fields)

    async def on_get(self, connection: Connection, request: Command, _: None) -> Command:
        config = await self._do(ResponseCode.SYSTEM_ERROR, self._files.config)
        for account in config.plain_access_configs:
            account.secret_key = MASKED  # as long as nobody has to prove who he is, everybody could ask
        return request.reply(body=bodies.encode(config))

    async def _do(self, failed: ResponseCode, work: Callable[[], T]) -> T:
        async with self._working:
            try:
                return await asyncio.to_thread(work)
            except StoreError as error:
                raise RequestFailed(failed, error.message) from None
            except ValueError as error:
                raise RequestFailed(failed, str(error)) from None

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
