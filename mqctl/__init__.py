"""mqctl: a RocketMQ-compatible broker, name server, client and operations tool."""

__version__ = "0.1.0"
