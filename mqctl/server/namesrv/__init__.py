"""The name server: who serves which topic, kept in memory from what brokers register."""
