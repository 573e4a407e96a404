"""The servers: a name server, a broker, and both in one process."""
