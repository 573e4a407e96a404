"""The commit log record: its layout, written down once, and the code that writes and reads it.

    field               size     note
    total size          4        of the whole record
    magic               4        MAGIC_V1, or MAGIC_V2 where the topic length takes two bytes
    body CRC            4        CRC-32 of the stored body & 0x7FFFFFFF; 0 for an empty body
    queue id            4
    flag                4        the user's own
    queue offset        8        index in the consume queue
    physical offset     8        the record's own place in the log
    sys flag            4        SYS_* below
    born timestamp      8        client's clock, ms
    born host           8 or 20  IP then port as int32; 20 bytes when sys flag has SYS_BORN_HOST_V6
    store timestamp     8        broker's clock, ms
    store host          8 or 20  likewise, SYS_STORE_HOST_V6
    reconsume times     4
    prepared offset     8        log offset of the half message, for a committed transaction
    body length, body   4 + n
    topic length, topic 1 + n    (2 + n in V2)
    properties          2 + n    text, see `properties`

When a record does not fit into what is left of a file, a blank takes its place: int32 = bytes left,
int32 = MAGIC_BLANK. A record therefore always leaves BLANK.size bytes free behind it.

All integers are big-endian.
"""

from __future__ import annotations

import functools
import ipaddress
import zlib
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
MAGIC_BLANK: Final = 0xCBD43194 - (1 << 32)

SYS_COMPRESSED: Final = 0x1
SYS_TRANSACTION_MASK: Final = 0xC
SYS_TRANSACTION_PREPARED: Final = 0x4
SYS_TRANSACTION_COMMIT: Final = 0x8
SYS_TRANSACTION_ROLLBACK: Final = 0xC
SYS_BORN_HOST_V6: Final = 0x10
SYS_STORE_HOST_V6: Final = 0x20

CRC_MASK: Final = 0x7FFFFFFF
MAX_TOPIC: Final = 127  # its length is one signed byte
MAX_PROPERTIES: Final = 32767  # its length is one int16

BLANK: Final = Struct(">ii")
SIZE_AND_MAGIC: Final = Struct(">ii")


def _head_struct(born_host: int, store_host: int) -> Struct:
    """Everything up to and including the body length, for hosts of the given widths."""
    return Struct(
        ">"
        "i"  # total size
        "i"  # magic
        "i"  # body CRC
        "i"  # queue id
        "i"  # flag
        "q"  # queue offset
        "q"  # physical offset
        "i"  # sys flag
        "q"  # born timestamp
        f"{born_host}s"  # born host
        "q"  # store timestamp
        f"{store_host}s"  # store host
        "i"  # reconsume times
        "q"  # prepared offset
        "i"  # body length
    )


# Indexed by the two host bits of the sys flag: (flag >> 4) & 3.
HEADS: Final = (_head_struct(8, 8), _head_struct(20, 8), _head_struct(8, 20), _head_struct(20, 20))
_HOST_V4: Final = Struct(">4si")
_HOST_V6: Final = Struct(">16si")
_SYS_FLAG: Final = Struct(">i")
_SYS_FLAG_AT: Final = Struct(">iiiiiqq").size
_UINT16: Final = Struct(">H")

_USUAL_HEAD: Final = HEADS[0]
_HOST_V6_BITS: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6

MIN_RECORD: Final = HEADS[0].size + 1 + _UINT16.size


class RecordError(ValueError):
    """The bytes at this place are not a whole, sound record."""


class Record(NamedTuple):
    size: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    phys_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: tuple[str, int]
    store_timestamp: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: str


# -- hosts and message ids --------------------------------------------------------------------------

# Parsing an address costs as much as the rest of a record, and there are few of them.
KNOWN_HOSTS: Final = 1024


@functools.lru_cache(maxsize=KNOWN_HOSTS)
def pack_host(ip: str, port: int) -> bytes:
    """8 bytes for an IPv4 address, 20 for an IPv6 one."""
    address = ipaddress.ip_address(ip.split("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return (_HOST_V4 if address.version == 4 else _HOST_V6).pack(address.packed, port)


@functools.lru_cache(maxsize=KNOWN_HOSTS)
def unpack_host(packed: bytes) -> tuple[str, int]:
    ip, port = (_HOST_V4 if len(packed) == _HOST_V4.size else _HOST_V6).unpack(packed)
    return str(ipaddress.ip_address(ip)), port


def host_flags(born_host: bytes, store_host: bytes) -> int:
    """The sys flag bits that tell a reader how wide the hosts are."""
    born = SYS_BORN_HOST_V6 if len(born_host) == _HOST_V6.size else 0
    return born | (SYS_STORE_HOST_V6 if len(store_host) == _HOST_V6.size else 0)


def encode_msg_id(store_host: bytes, phys_offset: int) -> str:
    """The offset message id: where the record is, in upper-case hex."""
    return f"{store_host.hex().upper()}{phys_offset:016X}"


def decode_msg_id(msg_id: str) -> tuple[tuple[str, int], int]:
    """(store host, log offset) of an offset message id. Raises ValueError for any other text."""
    packed = bytes.fromhex(msg_id)
    if len(packed) not in (_HOST_V4.size + 8, _HOST_V6.size + 8):
        raise ValueError(f"a message id has 32 or 56 hex digits, not {len(msg_id)}")
    return unpack_host(packed[:-8]), int.from_bytes(packed[-8:], "big", signed=True)


# -- writing ----------------------------------------------------------------------------------------


def encode(
    size: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    phys_offset: int,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    """One record of `size` bytes (`encoded_size`). `sys_flag` must already carry the host bits; the caller
    has checked topic and properties against MAX_TOPIC and MAX_PROPERTIES."""
    return b"".join(
        (
            HEADS[sys_flag >> 4 & 3].pack(
                size,
                MAGIC_V1,
                zlib.crc32(body) & CRC_MASK,
                queue_id,
                flag,
                queue_offset,
                phys_offset,
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                prepared_offset,
                len(body),
            ),
            body,
            len(topic).to_bytes(1, "big"),
            topic,
            _UINT16.pack(len(properties)),
            properties,
        )
    )


def encoded_size(sys_flag: int, topic_length: int, body_length: int, properties_length: int) -> int:
    return HEADS[sys_flag >> 4 & 3].size + body_length + 1 + topic_length + 2 + properties_length


# -- reading ----------------------------------------------------------------------------------------

TIMESTAMP_HEAD: Final = Struct(">iiiiiqqiq20sq").size  # enough to find the store timestamp with any born host
_MAGIC: Final = Struct(">i")
_MAGIC_AT: Final = Struct(">i").size
_BODY_LENGTH: Final = Struct(">i")
_PHYS_OFFSET: Final = Struct(">q")
_PHYS_OFFSET_AT: Final = Struct(">iiiiiq").size
_STORE_TIMESTAMP: Final = Struct(">q")
_STORE_TIMESTAMP_AT: Final = (Struct(">iiiiiqqiq8s").size, Struct(">iiiiiqqiq20s").size)


def is_head_at(head: bytes, phys_offset: int) -> bool:
    """Whether these bytes begin a record that was written at this very place of the log."""
    if len(head) < TIMESTAMP_HEAD:
        return False
    total, magic = SIZE_AND_MAGIC.unpack_from(head)
    return (
        magic in (MAGIC_V1, MAGIC_V2)
        and total >= MIN_RECORD
        and _PHYS_OFFSET.unpack_from(head, _PHYS_OFFSET_AT)[0] == phys_offset
    )


def size_of(head: bytes) -> int:
    return int(SIZE_AND_MAGIC.unpack_from(head)[0])


def store_timestamp_of(head: bytes) -> int:
    (sys_flag,) = _SYS_FLAG.unpack_from(head, _SYS_FLAG_AT)
    at = _STORE_TIMESTAMP_AT[1 if sys_flag & SYS_BORN_HOST_V6 else 0]
    return int(_STORE_TIMESTAMP.unpack_from(head, at)[0])


def properties_of(buffer: bytes, position: int, end: int) -> str:
    """The property text of the record between these two places, and nothing else of it. Raises RecordError if they do
    not hold one."""
    try:
        (magic,) = _MAGIC.unpack_from(buffer, position + _MAGIC_AT)
        (sys_flag,) = _SYS_FLAG.unpack_from(buffer, position + _SYS_FLAG_AT)
        cursor = position + HEADS[sys_flag >> 4 & 3].size
        cursor += _BODY_LENGTH.unpack_from(buffer, cursor - _BODY_LENGTH.size)[0]
        topic_width = 2 if magic == MAGIC_V2 else 1
        cursor += topic_width + int.from_bytes(buffer[cursor : cursor + topic_width], "big")
        (length,) = _UINT16.unpack_from(buffer, cursor)
    except StructError as error:
        raise RecordError(f"record at {position} is cut short: {error}") from None
    cursor += _UINT16.size
    if cursor + length != end:
        raise RecordError(f"the parts of the record at {position} do not add up to its size")
    return buffer[cursor:end].decode(errors="replace")


class Summary(NamedTuple):
    """What queues and index need of a record."""

    size: int
    queue_id: int
    queue_offset: int
    phys_offset: int
    sys_flag: int
    store_timestamp: int
    topic: str
    properties: str


def summarize(buffer: bytes, position: int) -> Summary | None:
    """What `parse` with the CRC checked finds at `position`, in a fifth of the time; None where the record is
    unsound or unusual, and `parse` has to say which. Recovery looks at millions of them."""
    try:
        (total, magic, crc, queue_id, _, queue_offset, phys_offset, sys_flag, _, _, store_timestamp, _, _, _,
         body_length) = _USUAL_HEAD.unpack_from(buffer, position)  # fmt: skip
        body_end = position + _USUAL_HEAD.size + body_length
        topic_end = body_end + 1 + buffer[body_end]
        end = topic_end + _UINT16.size + _UINT16.unpack_from(buffer, topic_end)[0]
    except (StructError, IndexError):
        return None
    if magic != MAGIC_V1 or sys_flag & _HOST_V6_BITS or body_length < 0:
        return None
    if end != position + total or end > len(buffer):
        return None
    if body_length and zlib.crc32(buffer[position + _USUAL_HEAD.size : body_end]) & CRC_MASK != crc:
        return None
    topic = buffer[body_end + 1 : topic_end].decode(errors="replace")
    properties = buffer[topic_end + _UINT16.size : end].decode(errors="replace")
    return Summary(total, queue_id, queue_offset, phys_offset, sys_flag, store_timestamp, topic, properties)


def parse(buffer: bytes | memoryview, position: int, *, check_crc: bool = False) -> Record:
    """The record at `position`. Raises RecordError if it is cut short, has another magic, or its parts do
    not add up to its size."""
    view = memoryview(buffer)
    try:
        total, magic = SIZE_AND_MAGIC.unpack_from(view, position)
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise RecordError(f"magic {magic & 0xFFFFFFFF:#x} at {position} is not a record's")
        if total < MIN_RECORD or position + total > len(view):
            raise RecordError(f"record size {total} at {position} does not fit")
        (sys_flag,) = _SYS_FLAG.unpack_from(view, position + _SYS_FLAG_AT)
        head = HEADS[sys_flag >> 4 & 3]
        fields = head.unpack_from(view, position)
        end = position + total
        body, cursor = _take(view, position + head.size, fields[-1], end)
        topic_width = 1 if magic == MAGIC_V1 else 2
        topic_length = int.from_bytes(view[cursor : cursor + topic_width], "big")
        topic, cursor = _take(view, cursor + topic_width, topic_length, end)
        (properties_length,) = _UINT16.unpack_from(view, cursor)
        properties, cursor = _take(view, cursor + _UINT16.size, properties_length, end)
    except StructError as error:
        raise RecordError(f"record at {position} is cut short: {error}") from None
    if cursor != end:
        raise RecordError(f"record at {position} claims {total} bytes and uses {cursor - position}")
    if check_crc and body and zlib.crc32(body) & CRC_MASK != fields[2]:
        raise RecordError(f"body CRC of the record at {position} does not match")
    # Text that is not UTF-8 is no damage: Java reads it with replacement characters too.
    return Record(
        size=total,
        body_crc=fields[2],
        queue_id=fields[3],
        flag=fields[4],
        queue_offset=fields[5],
        phys_offset=fields[6],
        sys_flag=fields[7],
        born_timestamp=fields[8],
        born_host=unpack_host(fields[9]),
        store_timestamp=fields[10],
        store_host=unpack_host(fields[11]),
        reconsume_times=fields[12],
        prepared_offset=fields[13],
        body=body,
        topic=topic.decode(errors="replace"),
        properties=properties.decode(errors="replace"),
    )


def _take(view: memoryview, start: int, length: int, end: int) -> tuple[bytes, int]:
    stop = start + length
    if length < 0 or stop > end:
        raise RecordError(f"a part of {length} bytes at {start} runs over the record's end")
    return bytes(view[start:stop]), stop
