"""What an account of RocketMQ 4's access control may look like. All functions raise ValueError, with the reason."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Final

from mqctl.remoting.bodies_acl import PlainAccessConfig

# Java's AclConstants: keys are longer than this.
MIN_KEY_LENGTH: Final = 6

# Of one account, or one list of addresses: hundreds of permissions. Writing YAML takes a second for a million.
MAX_CHARACTERS: Final = 32 * 1024

PERMISSIONS: Final = frozenset({"DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"})

# What stands for any address, and patterns of the last parts of one: `*`, `1-20`, `{3,7}`.
_ANY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_PATTERN_4: Final = re.compile(
    r"(\d+\.){3}(\*|\d+-\d+|\{\d+(,\d+)*\})"  # 10.0.0.*  10.0.0.1-20  10.0.0.{3,7}
    r"|(\d+\.){2}(\*|\d+-\d+)\.\*"  # 10.0.*.*  10.0.1-20.*
)
_PATTERN_6: Final = re.compile(r"(?i)([0-9a-f]*:){2,7}(\*|[0-9a-f]+-[0-9a-f]+(:\*)?|\{[0-9a-f]+(,[0-9a-f]+)*\})")


def check_size(texts: Iterable[str]) -> None:
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS} characters at once")


def check_account(account: PlainAccessConfig) -> None:
    check_size(
        (
            account.access_key,
            account.secret_key or "",
            account.white_remote_address or "",
            *(account.topic_perms or ()),
            *(account.group_perms or ()),
        )
    )
    for name, key in (("accessKey", account.access_key), ("secretKey", account.secret_key or "")):
        if len(key) <= MIN_KEY_LENGTH:
            raise ValueError(f"the {name} must be longer than {MIN_KEY_LENGTH} characters")
    for name, perm in (
        ("defaultTopicPerm", account.default_topic_perm),
        ("defaultGroupPerm", account.default_group_perm),
    ):
        if perm:
            _check_perm(f"{name}={perm}")
    for grant in (*(account.topic_perms or ()), *(account.group_perms or ())):
        _check_perm(grant)
    if account.white_remote_address:
        check_address(account.white_remote_address)


def _check_perm(grant: str) -> None:
    name, separator, perm = grant.partition("=")
    if not name.strip() or not separator or perm.strip() not in PERMISSIONS:
        raise ValueError(f"{grant!r} is no permission: write name=PUB, name=SUB, name=PUB|SUB or name=DENY")


def check_addresses(addresses: Sequence[str]) -> None:
    check_size(addresses)
    for address in addresses:
        check_address(address)


def check_address(text: str) -> None:
    """One address, several separated by commas, or a pattern."""
    text = text.strip()
    if not text or text in _ANY:
        return
    if _PATTERN_4.fullmatch(text):
        if all(int(number) <= 255 for number in re.findall(r"\d+", text)):
            return
    elif _PATTERN_6.fullmatch(text):
        return
    else:
        try:
            for one in text.split(","):
                ipaddress.ip_address(one.strip())
            return
        except ValueError:
            pass
    raise ValueError(f"{text!r} is no address: write 10.0.0.1, 10.0.0.*, 10.0.0.1-20 or 10.0.0.{{3,7}}")
