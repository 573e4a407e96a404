"""The fast request to store a message is byte for byte what the general encoder writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting.command import ONEWAY_FLAG, Command
from mqctl.remoting.sendrequest import SendRequest, request_template

INT32 = st.integers(-(2**31), 2**31 - 1)
# Java cannot read half of a surrogate pair, and no file is written with one.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    topic=TEXT, properties=TEXT, sys_flag=INT32, flag=INT32, born_ms=st.integers(0, 2**63 - 1), opaque=INT32,
    body=st.binary(max_size=50), oneway=st.booleans(),
)  # fmt: skip
def test_it_encodes_like_the_command(
    topic: str, properties: str, sys_flag: int, flag: int, born_ms: int, opaque: int, body: bytes, oneway: bool
) -> None:
    fixed = {"a": "50%d", "b": topic, "m": "%b"}
    ext = {"f": str(sys_flag), "g": str(born_ms), "h": str(flag), "i": properties, **fixed}
    request = SendRequest(310, request_template(310, fixed), sys_flag, born_ms, flag, properties, body, opaque=opaque)
    wanted = Command(310, ext, body, opaque=opaque)
    if oneway:
        request.flag |= ONEWAY_FLAG
        wanted.flag |= ONEWAY_FLAG
    assert request.encode() == wanted.encode()
    assert request.as_command() == wanted
