"""Looking up single messages: by key, by unique key, by place."""

from __future__ import annotations

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import QueryMessageHeader, ViewMessageHeader
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.properties import KEY_SEPARATOR, KEYS, UNIQ_KEY, get_property
from mqctl.store.store import MessageStore


class Querying:
    def __init__(self, config: BrokerConfig, store: MessageStore) -> None:
        self._config = config
        self._store = store

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.QUERY_MESSAGE: (QueryMessageHeader, self.on_query),
            RequestCode.VIEW_MESSAGE_BY_ID: (ViewMessageHeader, self.on_view),
        }

    def on_query(self, connection: Connection, request: Command, header: QueryMessageHeader) -> Command:
        """Apache's broker compares hashes and leaves it to clients to tell keys apart; here the messages are
        looked at, so that one with another key neither shows up nor takes the place of a right one."""
        index = self._store.index
        if index is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, "this broker keeps no index (messageIndexEnable is off)")
        wanted = self._config.default_query_max_num if header.unique_key_query else header.max_num
        limit = max(0, min(wanted, self._config.max_msgs_num_batch))
        found: dict[int, bytes] = {}

        def matches(phys_offset: int) -> bool:
            data = self._store.log.read_record(phys_offset)
            if data is None or not _has_key(data, header):
                return False
            found[phys_offset] = data
            return True

        offsets = index.query(header.topic, header.key, limit, header.begin_timestamp, header.end_timestamp, matches)
        if not offsets:
            none = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
            return request.reply(ResponseCode.QUERY_NOT_FOUND, ext=none, remark=f"no message with key {header.key!r}")
        last_update = {
            "indexLastUpdateTimestamp": str(self._store.log.store_timestamp(offsets[-1]) or 0),
            "indexLastUpdatePhyoffset": str(index.last_indexed_offset),
        }
        return request.reply(ext=last_update, body=b"".join(found[phys_offset] for phys_offset in offsets))

    def on_view(self, connection: Connection, request: Command, header: ViewMessageHeader) -> Command:
        found = self._store.log.read_record(header.offset)
        if found is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"no message begins at log offset {header.offset}")
        return request.reply(body=found)


def _has_key(data: bytes, header: QueryMessageHeader) -> bool:
    try:
        found = record.parse(data, 0)
    except record.RecordError:
        return False
    if found.topic != header.topic:
        return False
    if get_property(found.properties, UNIQ_KEY) == header.key:
        return True
    keys = get_property(found.properties, KEYS) or ""
    return not header.unique_key_query and header.key in keys.split(KEY_SEPARATOR)
