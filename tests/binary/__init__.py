"""The one-file executable: built once, and used as somebody would who has nothing else."""
