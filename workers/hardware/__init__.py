"""Facts of the hardware and arithmetic on them, for everyone who schedules, simulates or measures.
Nothing here asks a device anything."""
