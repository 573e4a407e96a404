"""The client side of the protocol."""
