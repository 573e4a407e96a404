"""What a consumer wants: the messages with some tags, those a filter lets through, or all."""

from __future__ import annotations

from typing import Final

from mqctl.errors import FilterError, RequestFailed
from mqctl.filter.sql import SQL92, Filter, compile_filter
from mqctl.remoting.bodies import SubscriptionData, SubscriptionGroupConfig
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.headers import PullMessageHeader
from mqctl.server.broker.clients import Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.store.fetch import Wanted
from mqctl.store.javahash import java_hash

FLAG_SUBSCRIPTION: Final = 4

MATCH_ALL: Final = "*"


def is_tag_type(expression_type: str | None) -> bool:
    return expression_type in (None, "", "TAG")


def tag_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The hashes to look for in the consume queue; None when every message is wanted. The client's own
    hashes are not enough: the Go client hashes bytes where Java hashes UTF-16 units."""
    if subscription.sub_string in ("", MATCH_ALL):
        return None
    return frozenset(subscription.code_set | {java_hash(tag) for tag in subscription.tags_set})


def parse_tags(expression: str | None) -> frozenset[int] | None:
    """The hashes for a subscription as clients write it: tags separated by `||`, or `*`. Raises RequestFailed."""
    text = (expression or "").strip()
    if text in ("", MATCH_ALL):
        return None
    tags = [tag.strip() for tag in text.split("||") if tag.strip()]
    if not tags:
        raise RequestFailed(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the subscription {text!r} names no tag")
    return frozenset(java_hash(tag) for tag in tags)


def compile_subscription(
    config: BrokerConfig, expression_type: str | None, expression: str | None, code: ResponseCode
) -> Filter:
    """The filter of a subscription that is not one by tags. Raises RequestFailed, with this code for an expression that
    cannot be understood."""
    if not config.enable_property_filter:
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR, f"this broker does not filter by {expression_type} (enablePropertyFilter is off)"
        )
    if expression_type != SQL92:
        raise RequestFailed(code, f"this broker filters by tags and by {SQL92}, not by {expression_type!r}")
    try:
        return compile_filter(expression or "")
    except FilterError as error:
        raise RequestFailed(code, str(error)) from None


class Subscribing:
    def __init__(self, config: BrokerConfig, clients: Clients) -> None:
        self._config = config
        self._clients = clients

    def wanted(self, header: PullMessageHeader, group: SubscriptionGroupConfig) -> Wanted:
        """Raises RequestFailed."""
        if header.sys_flag & FLAG_SUBSCRIPTION:
            if is_tag_type(header.expression_type):
                return parse_tags(header.subscription)
            return compile_subscription(
                self._config, header.expression_type, header.subscription, ResponseCode.SUBSCRIPTION_PARSE_FAILED
            )
        members = self._clients.consumers.get(header.consumer_group)
        if members is None:
            raise RequestFailed(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"no consumer of group {header.consumer_group!r} has sent a heartbeat to this broker",
            )
        if members.message_model == "BROADCASTING" and not group.consume_broadcast_enable:
            raise RequestFailed(
                ResponseCode.NO_PERMISSION, f"the consumer group {group.group_name!r} may not broadcast"
            )
        subscription = members.subscriptions.get(header.topic)
        if subscription is None:
            raise RequestFailed(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer group {header.consumer_group!r} does not subscribe to {header.topic!r}",
            )
        if subscription.sub_version < header.sub_version:
            return self._until_next_heartbeat(header, subscription)
        if is_tag_type(subscription.expression_type):
            return tag_codes(subscription)
        return compile_subscription(
            self._config, subscription.expression_type, subscription.sub_string, ResponseCode.FILTER_DATA_NOT_EXIST
        )

    def _until_next_heartbeat(self, header: PullMessageHeader, known: SubscriptionData) -> Wanted:
        """The heartbeat with the newer subscription is still to come: up to 30 s, since Java's client skips a heartbeat
        while another one is under way. Apache's broker answers SUBSCRIPTION_NOT_LATEST and the queue stands still until
        then. With tags, nothing is missed if all messages come: clients look at the tags of what they get. What a
        filter would have kept back they would take."""
        if not is_tag_type(header.expression_type or known.expression_type):
            raise RequestFailed(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the filter of {header.consumer_group!r} on {header.topic!r} has changed; the heartbeat with the new "
                "one has not come yet",
            )
        return None
