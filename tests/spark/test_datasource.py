"""The tables, read by Spark from stores whose content is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import FilledStore


@pytest.fixture(params=["apache_store", "apache55_store", "our_store"])
def filled(request: pytest.FixtureRequest) -> FilledStore:
    """Of each broker in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, FilledStore)
    return found


def test_messages_are_those_that_were_sent(spark: SparkSession, filled: FilledStore) -> None:
    columns = ("topic", "queue_id", "queue_offset", "tags", "keys", "uniq_key", "body")
    rows = filled.stores(spark).messages(*columns, body="full").where("topic in ('orders', 'audit')").collect()
    expected = [
        (
            each["topic"], each["queue_id"], each["queue_offset"], each.get("tags"), each.get("keys"), each["msg_id"],
            each["body"],
        )
        for each in filled.sent
    ]  # fmt: skip
    assert sorted(tuple(row) for row in rows) == sorted(expected)
