"""Tensor graphs to kernels: ranges, kernels, order and memory."""
