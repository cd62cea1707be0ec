"""Printers of program text: what they are given is final, they decide nothing."""

from core.render.llvm import render_llvm
from core.render.llvm_arithmetic import code_for_op

__all__ = ["code_for_op", "render_llvm"]
