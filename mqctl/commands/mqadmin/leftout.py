"""What mqadmin 5.x has and mqctl leaves out, commands and flags, and why.

4.9.7 has nothing of the kind, nor has a broker of its level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# By what they are about.
COMMANDS: Final = {
    "users and policies of the access control of 5.x; accounts of 4.x are in `mqctl acl`": """
        createUser updateUser deleteUser getUser listUser copyUser createAcl updateAcl deleteAcl getAcl listAcl copyAcl
        """,
    "static topics, whose queues move between brokers; RocketMQ 4.9 has none": """
        updateStaticTopic remappingStaticTopic
        """,
    "controllers, which elect masters": """
        getControllerMetaData getControllerConfig updateControllerConfig getSyncStateSet electMaster
        cleanBrokerMetadata getBrokerEpoch resetMasterFlushOffset
        """,
    "POP, where brokers hand out single messages": "setConsumeMode exportPopRecord",
    "flow control of cold reads, and how the log is read ahead": """
        getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig
        setCommitLogReadAheadMode
        """,
    "stores in RocksDB, compacted topics, and the timer engine that is kept in RocksDB": """
        exportMetadataInRocksDB rocksDBConfigToJson checkRocksdbCqWriteProgress dumpCompactionLog switchTimerEngine
        """,
    "several brokers in one process": "addBroker removeBroker",
    "lite topics": """
        getBrokerLiteInfo getParentTopicInfo getLiteTopicInfo getLiteClientInfo getLiteGroupInfo triggerLiteDispatch
        """,
}

# By command and flag, its letter (if it has one) and its long name: why.
FLAGS: Final = {
    "updateTopic": {"a attributes": "attributes of topics are kept by brokers of 5.x"},
    "updateSubGroup": {
        "p groupRetryPolicy": "retry policies of groups are kept by brokers of 5.x",
        " attributes": "attributes of groups are kept by brokers of 5.x",
    },
    "resetOffsetByTime": {"b broker": "it counts together with `-q` only; mqadmin moves all queues without it"},
    "queryMsgByKey": {
        "p keyType": "an index of 4.x knows keys only; for tags there is `mqctl msg print --tag`",
        "l lastKey": "an index of 4.x cannot go on after a key; `-b`, `-e` and `-m` choose among many",
    },
}


def about(name: str) -> str | None:
    """What a command that is left out is about, whatever the case of its letters."""
    return next((reason for reason, names in COMMANDS.items() if name.lower() in names.lower().split()), None)


def flags_of(name: str) -> Mapping[str, str]:
    return next((flags for known, flags in FLAGS.items() if known.lower() == name.lower()), {})
