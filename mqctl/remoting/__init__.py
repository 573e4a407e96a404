"""The wire: RocketMQ's remoting protocol. Nothing above `connection` knows a socket."""
