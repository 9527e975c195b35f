"""Opara (Chen et al.): streams by Algorithm 1, launched in the order of Algorithm 2."""

from workers.schedulers.opara.scheduler import OparaScheduler

__all__ = ["OparaScheduler"]
