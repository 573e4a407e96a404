"""The files that hold the accounts of access control: plain_acl.yml, and any *.yml in the folder acl beside it.

    globalWhiteRemoteAddresses: [10.10.103.*]      who needs no account
    accounts: [{accessKey: ..., secretKey: ...}]   see PlainAccessConfig
    dataVersion: [{counter: 1, timestamp: ...}]    of this file

They are RocketMQ's, read anew for every question: people edit them. A change keeps what it does not know, but not the
comments. All methods wait for the disk and raise StoreError for a file that cannot be read or written, ValueError for
what an account may not be; any thread may call them, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mqctl.errors import StoreError
from mqctl.remoting.bodies import DataVersion
from mqctl.remoting.bodies_acl import AclConfig, PlainAccessConfig
from mqctl.server.broker.admin.accounts import check_account, check_addresses
from mqctl.userfiles import replace

DEFAULT_FILE: Final = "plain_acl.yml"
MORE_FOLDER: Final = "acl"
# Thousands of accounts. Whoever adds them by the network must not fill the disk or keep the broker reading.
MAX_BYTES: Final = 512 * 1024

WHITE_ADDRESSES: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
VERSION: Final = "dataVersion"

Content = dict[str, Any]


class AclFiles:
    def __init__(self, folder: Path) -> None:
        self.default = folder / DEFAULT_FILE
        self._more = folder / MORE_FOLDER

    # -- questions ----------------------------------------------------------------------------------

    def config(self) -> AclConfig:
        """All files together. An access key counts where it stands first."""
        addresses: list[str] = []
        accounts: dict[str, PlainAccessConfig] = {}
        for content in self._contents().values():
            addresses += [str(address) for address in content.get(WHITE_ADDRESSES) or ()]
            for entry in _entries(content):
                account = _account(entry)
                accounts.setdefault(account.access_key, account)
        return AclConfig(global_white_addrs=addresses, plain_access_configs=list(accounts.values()))

    def versions(self) -> dict[Path, DataVersion]:
        """Of each file that holds something."""
        return {path: _version(content) for path, content in self._contents().items()}

    # -- changes ------------------------------------------------------------------------------------

    def put_account(self, wanted: PlainAccessConfig, now_ms: int) -> None:
        """A new account goes to the default file. Of one that is there, None leaves a value as it is."""
        path, content, entry = self._find(wanted.access_key) or (self.default, _read(self.default), None)
        merged = _merge(entry or {}, wanted)
        check_account(_account(merged))
        if entry is None:
            content[ACCOUNTS] = [*_entries(content), merged]
        else:
            entry.update(merged)
        _write(path, content, now_ms)

    def delete_account(self, access_key: str, now_ms: int) -> bool:
        """False when there is no such account."""
        found = self._find(access_key)
        if found is None:
            return False
        path, content, entry = found
        content[ACCOUNTS] = [other for other in _entries(content) if other is not entry]
        _write(path, content, now_ms)
        return True

    def put_white_addresses(self, addresses: list[str], file: str | None, now_ms: int) -> None:
        """`file`: one of those that are read; None is the default one."""
        path = self.default if not file else Path(file)
        if path not in self._paths():
            # A path from the network never becomes a file.
            raise ValueError(f"{file} is not one of the broker's files: {', '.join(map(str, self._paths()))}")
        check_addresses(addresses)
        content = _read(path)
        content[WHITE_ADDRESSES] = addresses
        _write(path, content, now_ms)

    # -- files --------------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        """Those of the folder first, as Java has it."""
        found = sorted(path for path in self._more.rglob("*") if path.suffix in (".yml", ".yaml"))
        return [*found, self.default]

    def _contents(self) -> dict[Path, Content]:
        return {path: content for path in self._paths() if (content := _read(path))}

    def _find(self, access_key: str) -> tuple[Path, Content, Content] | None:
        for path, content in self._contents().items():
            for entry in _entries(content):
                if str(entry.get("accessKey")) == access_key:
                    return path, content, entry
        return None


def _read(path: Path) -> Content:
    """Empty for a file that is not there or holds nothing."""
    import yaml  # takes a while, and few brokers are ever asked

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise StoreError(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        content = yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not _is_usual(content):
        raise StoreError(f"{path} does not hold accounts as RocketMQ writes them")
    return content


def _is_usual(content: Content) -> bool:
    accounts, addresses = content.get(ACCOUNTS) or [], content.get(WHITE_ADDRESSES) or []
    lists = isinstance(accounts, list) and isinstance(addresses, list)
    return lists and all(isinstance(entry, dict) for entry in accounts)


def _write(path: Path, content: Content, now_ms: int) -> None:
    import yaml

    version = _version(content)
    content[VERSION] = [{"counter": version.counter + 1, "timestamp": now_ms}]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    data = yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True).encode()
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path.name} would be larger than {MAX_BYTES} bytes")
    try:
        replace(path, data)  # readable by the broker's user alone: it holds passwords
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def _entries(content: Content) -> list[Content]:
    return list(content.get(ACCOUNTS) or ())


def _version(content: Content) -> DataVersion:
    try:
        return msgspec.convert((content.get(VERSION) or [{}])[0], DataVersion)
    except (msgspec.ValidationError, LookupError, TypeError):
        return DataVersion()  # somebody edited it away


# -- accounts -------------------------------------------------------------------------------------------


def _account(entry: Content) -> PlainAccessConfig:
    """YAML makes a number of a password such as 12345678."""
    values = {name: _plain(value) for name, value in entry.items() if value is not None}
    try:
        return msgspec.convert(values, PlainAccessConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"the account {entry.get('accessKey')}: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [str(item) for item in value]
    return value if isinstance(value, bool) else str(value)


def _merge(entry: Content, wanted: PlainAccessConfig) -> Content:
    return {**entry, **dict(_given(wanted))}


def _given(wanted: PlainAccessConfig) -> Iterator[tuple[str, Any]]:
    for name, value in msgspec.to_builtins(wanted).items():
        if value is not None:
            yield name, value
