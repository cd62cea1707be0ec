"""A graphics processor in numpy: it runs the PTX that the compilers really produced.

All threads of many work groups are lanes of arrays. `ptx` reads a text, `translate` turns each of
its basic blocks into a Python function of numpy operations, `machine` runs these for groups of
lanes that stand at the same block. Written from NVIDIA's "PTX ISA"; what it cannot run is an
error that names the instruction. It looks at what a processor does not: accesses beyond the end of
an allocation, misaligned ones, reads of work-group memory that nobody wrote, and accesses of two
threads with no barrier between them.
"""
