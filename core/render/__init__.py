"""Printers of program text: what they are given is final, they decide nothing."""

from core.render.c_style import FunctionWriter, c_code_for_op, render_c
from core.render.c_style_dialects import PLAIN_C, CDialect, VectorForms
from core.render.items import pack_arguments, slot_word
from core.render.llvm import ProgramWriter, render_llvm
from core.render.llvm_arithmetic import code_for_op

__all__ = ["PLAIN_C", "CDialect", "FunctionWriter", "ProgramWriter", "VectorForms", "c_code_for_op",
           "code_for_op", "pack_arguments", "render_c", "render_llvm", "slot_word"]
