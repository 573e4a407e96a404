"""The broker: one module per responsibility, joined in `app`."""
