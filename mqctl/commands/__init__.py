"""The command line: one module per noun; a command parses, calls, renders."""
