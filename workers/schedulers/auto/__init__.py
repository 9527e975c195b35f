"""What ``auto`` does beyond the schedulers: combining their schedules and refining the best."""
