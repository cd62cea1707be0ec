"""Kernels to programs: loop actions, tiles, lists of instructions."""
