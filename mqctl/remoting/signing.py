"""Signed requests, for brokers with RocketMQ's access control on: who asks, and the proof that he knows the secret."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqctl.remoting.command import Command
from mqctl.remoting.connection import Request

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
# Java's clients add this one after they signed, so that its brokers leave it out when they check.
UNSIGNED: Final = frozenset({SIGNATURE, "_UNIQUE_KEY_QUERY"})


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str


def signer(credentials: Credentials) -> Callable[[Request], Command]:
    """For connections on which every request is signed."""

    def signed(request: Request) -> Command:
        command = request.as_command()
        sign(command, credentials)
        return command

    return signed


def sign(command: Command, credentials: Credentials) -> None:
    """Adds the two fields; a request that was signed before is signed anew."""
    fields = command.fields()
    fields[ACCESS_KEY] = credentials.access_key
    signed = "".join(fields[name] for name in sorted(fields.keys() - UNSIGNED))
    digest = hmac.digest(credentials.secret_key.encode(), signed.encode() + command.body, "sha1")
    fields[SIGNATURE] = base64.b64encode(digest).decode()
