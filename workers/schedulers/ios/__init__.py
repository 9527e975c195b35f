"""IOS, whole, and then past it: ``scheduler`` is where to begin."""

from workers.schedulers.ios.scheduler import IosScheduler

__all__ = ["IosScheduler"]
