"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is not a failure: hypothesis would count an example that takes longer than 200 ms as one.
settings.register_profile("mqctl", deadline=None)
settings.load_profile("mqctl")
