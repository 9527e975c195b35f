"""What the user already has: the original model run by others, to be measured beside our Plans.

Nothing here imports torch until an alternative is opened (``opening``), and the original is touched
only in a sandboxed process (``child``).
"""
