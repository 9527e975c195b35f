"""NVIDIA GPUs as devices: streams, events, CUDA Graphs. See docs/cuda.md."""
