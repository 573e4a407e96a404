"""The store: RocketMQ's files, read and written without sockets, brokers or an event loop."""
