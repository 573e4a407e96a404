"""mqadmin's commands about access control. How to read a row: see translate.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.translate import Old

_WHERE: Final = {"b brokerAddr": "--broker", "c clusterName": "--cluster"}

_DELETE: Final = Old("acl account delete", {"a accessKey": "ACCESS_KEY", **_WHERE}, always="--yes")
_LIST: Final = Old("acl account list", _WHERE)

ACL: Final = {
    # Unlike mqadmin's, ours leaves alone what is not given.
    "updateAclConfig": Old(
        "acl account update",
        {
            "a accessKey": "ACCESS_KEY",
            **_WHERE,
            "s secretKey": "--secret-key",
            "m admin": "--admin/--no-admin",
            "i defaultTopicPerm": "--default-topic-perm",
            "u defaultGroupPerm": "--default-group-perm",
            "w whiteRemoteAddress": "--white-address",
            "t topicPerms": "--topic-perms",
            "g groupPerms": "--group-perms",
        },
        always="--yes",
    ),
    "deleteAclConfig": _DELETE,
    "deleteAccessConfig": _DELETE,
    "clusterAclConfigVersion": Old("acl version", _WHERE),
    "updateGlobalWhiteAddr": Old(
        "acl whitelist set",
        {"g globalWhiteRemoteAddresses": "ADDRESSES", **_WHERE, "p aclFileFullPath": "--file"},
        always="--yes",
    ),
    "getAclConfig": _LIST,
    "getAccessConfigSubCommand": _LIST,
}
