"""Instructions of PTX as expressions of numpy, as tables; {0}, {1} stand for operands."""

from typing import Final

RELATIONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
                     "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
SYMBOLS: Final = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
ROOTS: Final = {
    "sqrt": "np.sqrt({0})", "rcp": "{0}.dtype.type(1) / {0}", "ex2": "np.exp2({0})",
    "rsqrt": "(1 / np.sqrt({0}.astype(np.float64))).astype({0}.dtype)", "lg2": "np.log2({0})",
    "sin": "np.sin({0})", "cos": "np.cos({0})", "tanh": "np.tanh({0})"}
#: Instructions by what they do to operands of their own type; {kind} is the type's name.
FORMS: Final = {
    "not": "~{0}", "neg": "-{0}", "abs": "np.abs({0})", "fma": "FUSED[{kind!r}]({0}, {1}, {2})",
    "popc": "np.bitwise_count({0}).astype(np.uint32)", "clz": "A.count_leading_zeros({0})",
    "brev": "A.reverse_bits({0})", "copysign": "np.copysign({1}, {0})",
    "selp": "np.where({2}, {0}, {1})", "cnot": "({0} == 0).astype({0}.dtype)"}
