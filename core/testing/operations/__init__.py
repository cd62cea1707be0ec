"""Every operation of Tensor beside numpy: one table, run as parametrised tests on any device."""
