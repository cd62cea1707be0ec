"""The conformance kit: does a device keep the contract, and does it compute what core means?

    core conformance X --level L2
    pytest -p core.testing.plugin --pyargs core.testing.conformance --core-device=X

Levels, each a module here: L0 contract, L1 memory, L2 every op in every dtype, L3 code generation,
L4 copies and command lists, L5 whole models. What is compared with is `core.reference`: exact
operations bit for bit, functions and sums within the bounds of DESIGN, "Numbers".

What a device does not do stands in `conformance.toml`, package data of its import package
(`exclusions`); it is strict both ways. `launches` sees to it that the device's own programs ran,
`session` turns the outcomes into a report.
"""
