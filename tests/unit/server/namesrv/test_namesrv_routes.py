"""The route table, played through without sockets: who says what when, and what is known afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from mqctl.remoting.bodies import DataVersion, QueueData, TopicConfig, TopicConfigTable
from mqctl.remoting.headers_namesrv import RegisterBrokerHeader
from mqctl.server.namesrv.routes import Master, RouteTable


class Scene:
    """A route table, a clock one can turn, and short words for what brokers do."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.table = RouteTable(lambda: self.now)

    def register(
        self,
        *topics: str | TopicConfig,
        addr: str = "10.0.0.1:10911",
        name: str = "a",
        broker_id: int = 0,
        version: int = 1,
        cluster: str = "c",
        channel: object = "line 1",
        complete: bool = False,
        **header: Any,
    ) -> Master | None:
        broker = RegisterBrokerHeader(
            broker_name=name,
            broker_addr=addr,
            cluster_name=cluster,
            broker_id=broker_id,
            ha_server_addr=f"ha of {addr}",
        )
        for field, value in header.items():
            setattr(broker, field, value)
        configs = [TopicConfig(topic_name=t) if isinstance(t, str) else t for t in topics]
        table = TopicConfigTable(
            data_version=DataVersion(counter=version, timestamp=version * 10),
            topic_config_table={config.topic_name: config for config in configs},
        )
        return self.table.register(broker, table, channel, complete=complete)

    @property
    def topics(self) -> list[str]:
        return self.table.queues.topics()

    @property
    def addresses(self) -> dict[str, dict[int, str]]:
        return {name: data.broker_addrs for name, data in self.table.cluster_info().broker_addr_table.items()}

    @property
    def clusters(self) -> dict[str, list[str]]:
        return self.table.cluster_info().cluster_addr_table

    def perm(self, topic: str) -> int:
        return self.table.queues.of_topic(topic)[0].perm


@pytest.fixture
def scene() -> Scene:
    return Scene()


M, S = "10.0.0.1:10911", "10.0.0.2:10911"


# -- registration ---------------------------------------------------------------------------------------


def test_a_master_brings_its_topics(scene: Scene) -> None:
    assert scene.register(TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=8, perm=6)) is None
    route = scene.table.route("t")
    assert route is not None
    assert [(b.cluster, b.broker_name, b.broker_addrs) for b in route.broker_datas] == [("c", "a", {0: M})]
    assert route.queue_datas == [QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=8, perm=6)]
    assert scene.clusters == {"c": ["a"]}


def test_unknown_topic_has_no_route(scene: Scene) -> None:
    scene.register("t")
    assert scene.table.route("u") is None


def test_a_slave_brings_no_topics_and_learns_its_master(scene: Scene) -> None:
    assert scene.register("t", addr=S, broker_id=1, channel="line 2") is None
    assert scene.topics == []
    scene.register("t")
    assert scene.register("u", addr=S, broker_id=1, channel="line 2") == Master(M, f"ha of {M}")
    assert scene.topics == ["t"]
    assert scene.addresses == {"a": {0: M, 1: S}}


def test_a_slave_of_a_gone_master_learns_nothing(scene: Scene) -> None:
    scene.register("t")
    scene.register(addr=S, broker_id=1, channel="line 2")
    scene.table.channel_closed("line 1")
    assert scene.register(addr=S, broker_id=1, channel="line 2") is None
    assert scene.topics == ["t"]  # the slave still serves them


def test_the_same_version_changes_nothing_and_another_one_overwrites(scene: Scene) -> None:
    scene.register(TopicConfig(topic_name="t", perm=6))
    scene.register(TopicConfig(topic_name="t", perm=4))
    assert scene.perm("t") == 6
    scene.register(TopicConfig(topic_name="t", perm=4), version=2)
    assert scene.perm("t") == 4
    scene.register(TopicConfig(topic_name="t", perm=2), version=1)  # another is another, older or not
    assert scene.perm("t") == 2


def test_a_missing_topic_is_taken_at_any_version(scene: Scene) -> None:
    # The name server restarted; the first word of the broker is about one new topic, at its current version.
    scene.register("new", version=7)
    scene.register("new", "old 1", "old 2", version=7)
    assert scene.topics == ["new", "old 1", "old 2"]


def test_a_slave_that_becomes_master_replaces_itself(scene: Scene) -> None:
    scene.register("t")
    scene.register(addr=S, broker_id=1, channel="line 2")
    scene.register(TopicConfig(topic_name="t", perm=4), addr=S, broker_id=0, channel="line 2")
    assert scene.addresses == {"a": {0: S}}
    assert scene.perm("t") == 4  # the version is the slave's old one, but it is new as a master
    scene.table.channel_closed("line 1")  # what is left of the old master
    assert scene.addresses == {"a": {0: S}}
    assert scene.topics == ["t"]


def test_two_masters_of_one_name_leave_one_after_the_other(scene: Scene) -> None:
    scene.register("t")
    scene.register("t", addr=S, channel="line 2")
    scene.table.channel_closed("line 2")
    assert scene.addresses == {}
    scene.table.channel_closed("line 1")
    scene.register("t")
    assert scene.addresses == {"a": {0: M}}


def test_a_broker_that_changes_its_name_leaves_the_old_one(scene: Scene) -> None:
    scene.register("t")
    scene.register("u", name="b")
    assert scene.addresses == {"b": {0: M}}
    assert scene.topics == ["u"]
    assert scene.clusters == {"c": ["b"]}


# -- topics that the broker no longer has ---------------------------------------------------------------


def test_a_complete_registration_removes_what_it_lacks(scene: Scene) -> None:
    scene.register("t", "u", complete=True)
    scene.register("t", "v", name="b", addr="10.0.0.9:1", channel="line 9", complete=True)
    scene.register("u", version=2, complete=True)
    assert scene.topics == ["t", "u", "v"]
    assert [q.broker_name for q in scene.table.queues.of_topic("t")] == ["b"]


def test_an_incremental_registration_removes_nothing(scene: Scene) -> None:
    scene.register("t", "u", complete=True)
    scene.register("v", version=2)
    assert scene.topics == ["t", "u", "v"]


def test_the_complete_one_after_an_incremental_one_still_removes(scene: Scene) -> None:
    scene.register("t", "u", complete=True)
    # u is deleted at the broker (version 2, says nothing), v created (version 3, says only v) ...
    scene.register("v", version=3)
    # ... and then comes the periodic registration.
    scene.register("t", "v", version=3, complete=True)
    assert scene.topics == ["t", "v"]


def test_an_overtaken_registration_removes_nothing(scene: Scene) -> None:
    scene.register("t", version=1, complete=True)
    scene.register("t", "new", version=3, complete=True)
    scene.register("t", version=2, complete=True)
    assert scene.topics == ["new", "t"]
    scene.register("t", "new", version=3, complete=True)
    assert scene.topics == ["new", "t"]


def test_a_restarted_master_whose_slave_held_the_name_removes_too(scene: Scene) -> None:
    scene.register("t", "u", complete=True)
    scene.register(addr=S, broker_id=1, channel="line 2")
    scene.table.channel_closed("line 1")
    scene.register("t", version=2, channel="line 3", complete=True)
    assert scene.topics == ["t"]


# -- liveness -------------------------------------------------------------------------------------------


def test_unregistering_the_last_address_takes_the_topics_along(scene: Scene) -> None:
    scene.register("t")
    scene.register(addr=S, broker_id=1, channel="line 2")
    scene.table.unregister(M)
    assert (scene.addresses, scene.topics) == ({"a": {1: S}}, ["t"])
    scene.table.unregister(S)
    assert (scene.addresses, scene.topics, scene.clusters) == ({}, [], {})
    scene.table.unregister(S)  # twice is harmless


def test_an_old_master_that_stops_late_does_not_take_the_new_one_along(scene: Scene) -> None:
    scene.register("t")
    scene.register("t", addr=S, channel="line 2")
    scene.table.unregister(M)
    assert scene.addresses == {"a": {0: S}}


def test_a_closed_line_drops_all_brokers_behind_it(scene: Scene) -> None:
    scene.register("t", channel="shared")
    scene.register("u", name="b", addr=S, channel="shared")
    scene.register("v", name="d", addr="10.0.0.9:1", channel="other")
    scene.table.channel_closed("shared")
    assert scene.addresses == {"d": {0: "10.0.0.9:1"}}
    assert scene.topics == ["v"]


def test_the_end_of_a_replaced_line_means_nothing(scene: Scene) -> None:
    scene.register("t", channel="old")
    scene.register("t", channel="new")
    scene.table.channel_closed("old")
    assert scene.topics == ["t"]
    scene.table.channel_closed("new")
    assert scene.topics == []


def test_silence_of_120_seconds_is_the_end(scene: Scene) -> None:
    scene.register("t")
    scene.register("u", name="b", addr=S, channel="line 2")
    scene.now += 100
    scene.table.touch(S)
    scene.now += 20
    assert scene.table.expire() == []
    scene.now += 1
    assert scene.table.expire() == ["line 1"]
    assert scene.addresses == {"b": {0: S}}
    assert scene.topics == ["u"]
    assert scene.table.touch(M) is None


@pytest.mark.parametrize(("millis", "limit"), [(10_000, 10), (None, 120), (0, 120), (-5, 120)])
def test_a_broker_may_set_its_own_limit(scene: Scene, millis: int | None, limit: int) -> None:
    scene.register("t", heartbeat_timeout_millis=millis)
    scene.now += limit
    assert scene.table.expire() == []
    scene.now += 0.001
    assert scene.table.expire() == ["line 1"]


def test_a_line_that_others_still_use_stays_open(scene: Scene) -> None:
    scene.register("t", channel="shared", heartbeat_timeout_millis=1000)
    scene.register("u", name="b", addr=S, channel="shared")
    scene.now += 2
    assert scene.table.expire() == []
    assert scene.addresses == {"b": {0: S}}


def test_what_a_broker_is_asked_to_tell_again(scene: Scene) -> None:
    def is_at(version: int) -> bool:
        live = scene.table.touch(M)
        return live is not None and live.is_at(DataVersion(counter=version, timestamp=version * 10))

    assert not is_at(1)
    scene.register("t")
    assert is_at(1)
    assert not is_at(2)
    scene.register("t", version=2, complete=True)
    assert is_at(2)
    scene.register("u", version=3)  # single news: who knows what was lost before
    assert not is_at(3)


# -- operators ------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_and_given_back(scene: Scene) -> None:
    scene.register(TopicConfig(topic_name="t", perm=7), TopicConfig(topic_name="u", perm=4))
    scene.register("t", name="b", addr=S, channel="line 2")
    assert scene.table.wipe_write_perm("a") == 2
    assert (scene.perm("t"), scene.perm("u")) == (5, 4)
    assert scene.table.queues.of_topic("t")[1].perm == 6
    scene.register(TopicConfig(topic_name="t", perm=7))
    assert scene.perm("t") == 5  # same version: stays wiped
    assert scene.table.add_write_perm("a") == 2
    assert (scene.perm("t"), scene.perm("u")) == (6, 6)
    assert scene.table.wipe_write_perm("nobody") == 0


def test_deleting_a_topic_everywhere_or_in_one_cluster(scene: Scene) -> None:
    scene.register("t", "u")
    scene.register("t", "u", name="b", addr=S, cluster="d", channel="line 2")
    scene.table.delete_topic("t", "d")
    assert [q.broker_name for q in scene.table.queues.of_topic("t")] == ["a"]
    scene.table.delete_topic("t", "nowhere")
    assert scene.topics == ["t", "u"]
    scene.table.delete_topic("t", "c")
    scene.table.delete_topic("u", None)
    scene.table.delete_topic("u", None)
    assert scene.topics == []


def test_lists(scene: Scene) -> None:
    scene.register(
        TopicConfig(topic_name="plain"),
        TopicConfig(topic_name="unit", topic_sys_flag=1),
        TopicConfig(topic_name="sub", topic_sys_flag=2),
        TopicConfig(topic_name="both", topic_sys_flag=3),
    )
    scene.register("plain", "other", name="b", addr=S, cluster="d", channel="line 2")
    assert scene.table.topics_of_cluster("c") == ["both", "plain", "sub", "unit"]
    assert scene.table.topics_of_cluster("d") == ["other", "plain"]
    assert scene.table.topics_of_cluster("nowhere") == []
    assert scene.table.system_topics() == ["a", "b", "c", "d"]
    assert scene.table.any_address() == M
    assert scene.table.queues.with_flags(lambda flags: flags == 2) == ["sub"]
    assert Scene().table.any_address() is None


def test_single_topics_of_5x_brokers(scene: Scene) -> None:
    scene.register("t")
    queues = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)
    assert scene.table.register_topic("u", [queues]) == []
    assert scene.table.queues.of_topic("u") == [queues]
    stranger = QueueData(broker_name="x")
    assert scene.table.register_topic("v", [queues, stranger]) == ["x"]
    assert scene.topics == ["t", "u"]


def test_members_of_a_name(scene: Scene) -> None:
    scene.register("t")
    scene.register(addr=S, broker_id=1, channel="line 2")
    assert scene.table.members("c", "a").broker_addrs == {0: M, 1: S}
    assert scene.table.members("c", "x").broker_addrs == {}
