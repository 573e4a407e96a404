"""Crashes and damage: what was acknowledged stays, what was not written never appears."""
