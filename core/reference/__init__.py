"""The executable meaning of the IR, and the built-in devices REFERENCE and NULL.

`evaluate.evaluate` computes a tensor graph on whole numpy arrays, without any scheduler: the
oracle of values. `run.run` executes kernels and programs at any stage of the compiler: the oracle
of passes. The devices come through the same hooks as any plugin (`stub`). This module loads
nothing: the registry reads the stub before numpy is needed.
"""
