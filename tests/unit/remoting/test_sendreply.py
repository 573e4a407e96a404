"""The fast answer to a send is byte for byte what the general encoder writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting.command import Command
from mqctl.remoting.sendreply import SendReply, reply_template

INT32 = st.integers(0, 2**31 - 1)
INT63 = st.integers(0, 2**63 - 1)


@given(phys_offset=INT63, queue_id=INT32, queue_offset=INT63, opaque=INT32, region=st.text(max_size=20))
def test_it_encodes_like_the_command(
    phys_offset: int, queue_id: int, queue_offset: int, opaque: int, region: str
) -> None:
    ext = {
        "msgId": f"7F00000100002A9F{phys_offset:016X}",
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "MSG_REGION": region,
        "TRACE_ON": "true",
    }
    template = reply_template("7F00000100002A9F", {"MSG_REGION": region, "TRACE_ON": "true"})
    reply = SendReply(template, phys_offset, queue_id, queue_offset, opaque)
    wanted = Command(310, opaque=opaque).reply(ext=ext)
    assert reply.encode() == wanted.encode()
    assert reply.as_command() == wanted
