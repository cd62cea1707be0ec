"""Kernel graph to program: loop actions, expansion, selection, linearisation."""
