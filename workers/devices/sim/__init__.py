"""Simulated GPUs, for GPUs that nobody here owns. Every figure of theirs is marked simulated."""
