"""The version of the simulator's rules and numbers."""

from __future__ import annotations

MODEL_VERSION = "2"
"""Part of the fingerprint of every simulated device: raise it whenever a kernel model, a constant
or a rule of the engine changes, so that no measurement of one version is taken for another's."""
