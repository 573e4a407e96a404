"""The numbers, as they stand in the class files of 4.9.7 and 5.5.0."""

import pytest

from mqctl.remoting import codes
from mqctl.remoting.codes import LanguageCode, RequestCode, ResponseCode, request_name, response_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (10, "SEND_MESSAGE"),
        (11, "PULL_MESSAGE"),
        (34, "HEART_BEAT"),
        (54, "GET_BROKER_CLUSTER_ACL_CONFIG"),
        (103, "REGISTER_BROKER"),
        (105, "GET_ROUTEINFO_BY_TOPIC"),
        (224, "GET_TOPICS_BY_CLUSTER"),
        (300, "QUERY_TOPIC_CONSUME_BY_WHO"),
        (310, "SEND_MESSAGE_V2"),
        (320, "SEND_BATCH_MESSAGE"),
        (329, "DELETE_EXPIRED_COMMITLOG"),
        (361, "LITE_PULL_MESSAGE"),
        (400, "QUERY_ASSIGNMENT"),
        (1018, "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST"),
        (5001, "SWITCH_TIMER_ENGINE"),
        (200050, "POP_MESSAGE"),
        (200079, "TRIGGER_LITE_DISPATCH"),
        (200151, "BATCH_ACK_MESSAGE"),
    ],
)
def test_request_codes(code: int, name: str) -> None:
    assert RequestCode[name] == code
    assert request_name(code) == name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "SUCCESS"),
        (3, "REQUEST_CODE_NOT_SUPPORTED"),
        (17, "TOPIC_NOT_EXIST"),
        (28, "FILTER_DATA_NOT_LATEST"),
        (215, "FLOW_CONTROL"),
        (-1006, "RPC_TIME_OUT"),
        (1500, "GO_AWAY"),
        (2016, "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS"),
        (3002, "POLICY_NOT_EXIST"),
    ],
)
def test_response_codes(code: int, name: str) -> None:
    assert ResponseCode[name] == code
    assert response_name(code) == name


def test_clashes_keep_the_name_of_4_9_7() -> None:
    assert response_name(209) == "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"
    assert response_name(210) == "DELETE_ACL_CONFIG_FAILED"
    assert response_name(211) == "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"


def test_no_code_of_the_released_lists_is_missing() -> None:
    in_4_9_7 = [c for c in RequestCode if c <= 329 and c not in (18, 47, 60, 61, 217, 225)]
    assert len(in_4_9_7) == 96
    assert len(RequestCode) == 169 + 5  # 5.5 dropped the five of ACL 1.0
    assert len([c for c in ResponseCode if c in range(29) or c in range(200, 212) or c == 215]) == 37
    assert len(ResponseCode) == 5 + 63  # the clashes are one number each


def test_a_number_without_a_name_is_its_own_text() -> None:
    assert request_name(16) == "16"
    assert request_name(-7) == "-7"
    assert response_name(9999) == "9999"


def test_languages_and_versions() -> None:
    assert [language.name for language in LanguageCode][:4] == ["JAVA", "CPP", "DOTNET", "PYTHON"]
    assert [language.value for language in LanguageCode] == list(range(14))
    assert codes.VERSION_4_9_7 == 407
    assert codes.VERSION_5_5_0 == 513
