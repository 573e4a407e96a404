"""Message properties: the text kept in every record, and the names RocketMQ gives a meaning to.

The text is ``name 0x01 value 0x02 name 0x01 value ...``. 4.9.7 writes no 0x02 after the last pair, 5.x and
old clients do; both read alike here. This module imports nothing, so that any reader of a store can load it.
"""

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

KEY_SEPARATOR = " "  # between the keys inside the value of KEYS

# What a producer says about its message.
KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
UNIQ_KEY = "UNIQ_KEY"
INSTANCE_ID = "INSTANCE_ID"
BUYER_ID = "BUYER_ID"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"

# Where a delayed, half or retried message comes from and goes to.
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"

# Messages with a delivery time of their own, as RocketMQ 5 has them.
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"

# Transactions.
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"

# Request and reply.
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
MSG_TYPE = "MSG_TYPE"
IS_REPLY = "reply"  # the value of MSG_TYPE in answers

# Set by the broker, or by a consumer for itself.
CLUSTER = "CLUSTER"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
CONSUME_START_TIME = "CONSUME_START_TIME"

# Historical: no current release sets them, but they stay reserved.
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"

# Names the Java client refuses as user properties. Four names above are missing on purpose, as they are in
# MessageConst: a user may set CHECK_IMMUNITY_TIME_IN_SECONDS and INNER_MULTI_DISPATCH, and the transaction
# counters TRANSACTION_CHECK_TIMES and TRAN_PREPARED_QUEUE_OFFSET were never added to the Java list.
RESERVED_NAMES = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, UNIQ_KEY, INSTANCE_ID, BUYER_ID,
        REAL_TOPIC, REAL_QID, RETRY_TOPIC, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES,
        TRAN_MSG, PGROUP,
        CORRELATION_ID, REPLY_TO_CLIENT, TTL, ARRIVE_TIME, PUSH_REPLY_TIME, MSG_TYPE,
        CLUSTER, MSG_REGION, TRACE_ON, INNER_MULTI_QUEUE_OFFSET, MIN_OFFSET, MAX_OFFSET, CONSUME_START_TIME,
        TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG,
    }
)  # fmt: skip


def parse_properties(text: str) -> dict[str, str]:
    """Read a record's property text. Never fails: what is not a pair with both halves is dropped.

    A pair is cut at its first 0x01, so a value may hold that byte. A name that occurs twice keeps the last
    value.
    """
    found = {}
    for pair in text.split(PROPERTY_SEPARATOR):
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if value and name:
            found[name] = value
    return found


def join_properties(properties: dict[str, str]) -> str:
    """The text of properties that `parse_properties` returned, or that the broker made itself: they hold no
    separators, so nothing has to be checked."""
    return PROPERTY_SEPARATOR.join([f"{name}\x01{value}" for name, value in properties.items()])


def _find(text: str, mark: str) -> int:
    """Where the last pair that begins with `mark` begins; -1 if there is none."""
    at = text.rfind(PROPERTY_SEPARATOR + mark)
    if at >= 0:
        return at + 1
    return 0 if text.startswith(mark) else -1


def get_property(text: str, name: str) -> str | None:
    """One property of a text, without reading all of it; the last where it occurs twice."""
    mark = name + NAME_VALUE_SEPARATOR
    at = _find(text, mark)
    if at < 0:
        return None
    begin = at + len(mark)
    end = text.find(PROPERTY_SEPARATOR, begin)
    value = text[begin:end] if end >= 0 else text[begin:]
    return value or get_property(text[: max(0, at - 1)], name)  # an empty one does not count


def drop_property(text: str, name: str) -> str:
    """The text without a property, wherever and however often it occurs."""
    mark = name + NAME_VALUE_SEPARATOR
    return PROPERTY_SEPARATOR.join([pair for pair in text.split(PROPERTY_SEPARATOR) if not pair.startswith(mark)])


def join_texts(first: bytes, second: bytes) -> bytes:
    """Two encoded property texts as one, the second one winning where both have a name."""
    if not first or first.endswith(b"\x02"):
        return first + second
    return b"%b\x02%b" % (first, second)


def format_properties(properties: dict[str, str]) -> str:
    """Write the text in the order given, without a trailing separator; empty names and values are dropped.

    Raises ValueError for a separator inside a name or a value: Java writes it as it is, and the reader then
    finds properties that nobody set.
    """
    pairs = []
    for name, value in properties.items():
        if not name or not value:
            continue
        if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name or PROPERTY_SEPARATOR in value:
            raise ValueError(f"property {name!r} holds a separator byte (0x01 or 0x02)")
        pairs.append(f"{name}{NAME_VALUE_SEPARATOR}{value}")
    return PROPERTY_SEPARATOR.join(pairs)
