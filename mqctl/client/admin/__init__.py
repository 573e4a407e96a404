"""What operators ask and tell a cluster: one module per question or task, all over `Admin`."""

from mqctl.client.admin.admin import TIMEOUT_S, Admin

__all__ = ["TIMEOUT_S", "Admin"]
