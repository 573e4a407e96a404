"""Which topics a look at a cluster asks about, when there are too many for each look."""

from __future__ import annotations

from mqctl.client.admin.overview import BUSIEST, SHARE, TopicFigures, TopicRates


def look(rates: TopicRates, topics: list[str], busy: dict[str, float]) -> tuple[list[str], list[TopicFigures]]:
    asked = rates.choose(topics)
    return asked, rates.learn(topics, [TopicFigures(topic, busy.get(topic, 0.0), 0.0) for topic in asked])


def names(count: int) -> list[str]:
    return [f"t{number:04}" for number in range(count)]


def test_a_few_topics_are_all_asked_about() -> None:
    rates, topics = TopicRates(), names(SHARE)
    for _ in range(2):
        asked, known = look(rates, topics, {"t0007": 1.0})
        assert sorted(asked) == [each.topic for each in known] == topics


def test_thousands_are_asked_about_in_turn_and_the_busiest_always() -> None:
    rates, topics = TopicRates(), names(5000)
    busy = {topic: float(number) for number, topic in enumerate(topics) if number % 10 == 9}
    seen: set[str] = set()
    for _ in range(len(topics) // SHARE):
        asked, _ = look(rates, topics, busy)
        assert len(asked) == len(set(asked)) <= BUSIEST + SHARE
        seen.update(asked)
    assert seen == set(topics)
    asked, known = look(rates, topics, busy)
    assert asked[:BUSIEST] == sorted(busy, key=lambda topic: -busy[topic])[:BUSIEST]
    assert len(known) == len(topics)


def test_a_topic_that_is_gone_is_forgotten() -> None:
    rates = TopicRates()
    look(rates, ["a", "b"], {"a": 1.0})
    asked, known = look(rates, ["b"], {})
    assert asked == [each.topic for each in known] == ["b"]
    assert look(rates, [], {}) == ([], [])
