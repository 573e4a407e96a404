"""SQL92 filters on message properties: a parser, Java's rules of comparison, and nothing of a server."""
