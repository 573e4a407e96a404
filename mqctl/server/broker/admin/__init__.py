"""What tools ask of a broker and tell it: one module per subject."""
