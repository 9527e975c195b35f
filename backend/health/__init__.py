"""Whether the service works, for probes, people and Prometheus."""
