"""mqadmin's commands and flags as command lines of ours: `translate` turns them, the other modules say into what."""
