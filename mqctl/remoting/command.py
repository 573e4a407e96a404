"""A remoting command: what one frame means, request or response.

Header fields (`extFields`) stay in the form they arrived in until a handler asks for its typed header, so
that a busy broker decodes each request once, straight from JSON into a struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from mqctl.remoting import codec_binary, codec_json
from mqctl.remoting.codes import VERSION_4_9_7, LanguageCode
from mqctl.remoting.frames import Frame, FrameError, join_frame

JSON: Final = 0
BINARY: Final = 1

# Tools show which languages are connected; answers claim Java's, as a client may not know ours.
LANGUAGE: Final = int(LanguageCode.JAVA)

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

T = TypeVar("T")


class HeaderError(ValueError):
    """A header field is absent or has a value its type does not allow. The request is at fault."""


class Command(msgspec.Struct, gc=False, eq=False):
    """One request or response.

    `ext_raw` holds extFields as undecoded JSON and `ext` as a dict; at most one of them is set until
    `fields()` is called.
    """

    code: int
    ext: dict[str, str] | None = None
    body: bytes = b""
    remark: str | None = None
    flag: int = 0
    opaque: int = 0
    version: int = VERSION_4_9_7
    language: int = int(LanguageCode.PYTHON)
    codec: int = JSON
    ext_raw: msgspec.Raw | None = None

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    def fields(self) -> dict[str, str]:
        """extFields as a dict of text, whatever form they came in. Raises HeaderError if they are none."""
        if self.ext is None:
            try:
                self.ext = {} if self.ext_raw is None else codec_json.decode_ext(self.ext_raw)
            except ValueError as error:
                raise HeaderError(str(error)) from None
            self.ext_raw = None
        return self.ext

    def header(self, kind: type[T]) -> T:
        """extFields as a typed header. Raises HeaderError where they do not fit."""
        if self.ext_raw is not None:
            try:
                return codec_json.typed_decoder(kind).decode(self.ext_raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                # A number where text belongs is legal for Java's decoder: look again at the text of it.
                pass
        try:
            return msgspec.convert(self.fields(), kind, strict=False)
        except msgspec.ValidationError as error:
            raise HeaderError(str(error)) from None

    def reply(
        self,
        code: int = 0,
        *,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> Command:
        """The response to this request: same opaque, same header codec."""
        return Command(code, ext, body, remark, RESPONSE_FLAG, self.opaque, VERSION_4_9_7, LANGUAGE, self.codec)

    def encode(self) -> bytes:
        """The whole frame."""
        if self.codec == BINARY:
            header = codec_binary.encode(
                self.code, self.language, self.version, self.opaque, self.flag, self.remark, self.fields()
            )
        else:
            ext = self.ext if self.ext_raw is None else self.fields()
            header = codec_json.encode(self.code, self.language, self.version, self.opaque, self.flag, self.remark, ext)
        return join_frame(self.codec, header, self.body)

    def as_command(self) -> Command:
        return self

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return f"<{kind} code={self.code} opaque={self.opaque} body={len(self.body)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Command):
            return NotImplemented
        mine, theirs = self._identity(), other._identity()
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def _identity(self) -> tuple[object, ...]:
        return (
            self.code,
            self.flag,
            self.opaque,
            self.version,
            self.language,
            self.remark,
            self.fields(),
            bytes(self.body),
        )


def decode_frame(frame: Frame) -> Command:
    """The command in a frame. Raises FrameError when the header is not one: then nothing that the peer
    sends can be matched to a request any more, and the connection has to close."""
    try:
        if frame.codec == JSON:
            header = codec_json.decode(frame.header)
            return Command(
                header.code,
                None,
                frame.body,
                header.remark,
                header.flag,
                header.opaque,
                header.version,
                codec_json.language_code(header.language),
                JSON,
                None if header.ext_fields is codec_json.NO_EXT else header.ext_fields,
            )
        if frame.codec == BINARY:
            code, language, version, opaque, flag, remark, ext = codec_binary.decode(frame.header)
            language = codec_json.language_code(language)  # tools show it by name: only known ones come in
            return Command(code, ext, frame.body, remark, flag, opaque, version, language, BINARY)
    except ValueError as error:
        raise FrameError(f"header does not parse: {error}") from None
    raise FrameError(f"unknown header codec {frame.codec}")


def header_fields(header: Any) -> dict[str, str]:
    """A typed header as extFields: absent values left out, booleans and numbers as Java prints them."""
    members: Mapping[str, Any] = msgspec.to_builtins(header)
    return {name: _text(value) for name, value in members.items() if value is not None}


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)
