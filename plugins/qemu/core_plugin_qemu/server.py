"""The program that runs inside of the emulator: it serves system calls and runs batches.

Its standard input is a socket. From it come requests of 64 bytes, eight int64, and answers of 8
bytes go back by it (the emulator itself prints to the other two when something fails):

    0                                       end
    1, number, six arguments                make a system call, answer with its result
    2, first row, end of rows, progress     run a batch of kernels, then answer with 0

Rows lie in shared memory one behind the other, each `ROW_BYTES` followed by its arguments:

    function, next row, first item, end of items | arguments of 8 bytes

Before it runs a row it writes the row's address to the progress word, and the end of rows behind
the last; so the host knows how far it came, whatever happened to it. All policy is the host's.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

from core.toolchain import compile_ir
from core_plugin_qemu.architectures import Architecture
from core_plugin_qemu.elf import HEADER_BYTES, executable, read_object
from core_plugin_qemu.relocate import link

END, SYSTEM_CALL, RUN = range(3)
REQUEST: Final = struct.Struct("<8q")
ANSWER: Final = struct.Struct("<q")
ROW: Final = struct.Struct("<4q")
ROW_BYTES: Final = ROW.size

# Numbers of the system calls: Linux's generic table, which all three have.
READ, WRITE, EXIT_GROUP, MMAP, MPROTECT = 63, 64, 94, 222, 226

# {W} is the word: i32 or i64. `sys` takes the number and six arguments.
_TEXT: Final = """
@sys = internal constant [{code_size} x i8] c"{code}", align 16
define void @_start() noreturn nounwind {{
  %request = alloca [8 x i64], align 16
  %result = alloca i64, align 16
  %request_at = ptrtoint ptr %request to {W}
  %result_at = ptrtoint ptr %result to {W}
  br label %wait
wait:
  %read = call {W} @sys({W} {READ}, {W} 0, {W} %request_at, {W} 64, {W} 0, {W} 0, {W} 0)
  %whole = icmp eq {W} %read, 64
  br i1 %whole, label %have, label %quit
have:
  %kind = load i64, ptr %request
{loads}
  switch i64 %kind, label %quit [
    i64 1, label %serve
    i64 2, label %run ]
serve:
  %served = call {W} @sys({W} %w1, {W} %w2, {W} %w3, {W} %w4, {W} %w5, {W} %w6, {W} %w7)
  %served_wide = {widen_served}
  br label %answer
run:
  %progress = inttoptr {W} %w3 to ptr
  br label %rows
rows:
  %row_at = phi {W} [ %w1, %run ], [ %next_at, %row ]
  store atomic {W} %row_at, ptr %progress release, align 8
  %more = icmp ult {W} %row_at, %w2
  br i1 %more, label %row, label %answer
row:
  %row_p = inttoptr {W} %row_at to ptr
  %function_word = load i64, ptr %row_p
  %next_p = getelementptr i8, ptr %row_p, i32 8
  %next_word = load i64, ptr %next_p
  %first_p = getelementptr i8, ptr %row_p, i32 16
  %first = load i64, ptr %first_p
  %last_p = getelementptr i8, ptr %row_p, i32 24
  %last = load i64, ptr %last_p
  %arguments = getelementptr i8, ptr %row_p, i32 {ROW_BYTES}
  %function = inttoptr i64 %function_word to ptr
  %next_at = {next_at}
  call void %function(ptr %arguments, i64 %first, i64 %last, i64 0)
  br label %rows
answer:
  %value = phi i64 [ %served_wide, %serve ], [ 0, %rows ]
  store i64 %value, ptr %result
  %written = call {W} @sys({W} {WRITE}, {W} 0, {W} %result_at, {W} 8, {W} 0, {W} 0, {W} 0)
  br label %wait
quit:
  %gone = call {W} @sys({W} {EXIT_GROUP}, {W} 0, {W} 0, {W} 0, {W} 0, {W} 0, {W} 0)
  unreachable
}}
"""


def _server_text(architecture: Architecture) -> str:
    wide = architecture.word_bits == 64
    loads = []
    for k in range(1, 8):
        loads += [f"  %p{k} = getelementptr i64, ptr %request, i32 {k}",
                  f"  %v{k} = load i64, ptr %p{k}",
                  f"  %w{k} = add i64 %v{k}, 0" if wide else f"  %w{k} = trunc i64 %v{k} to i32"]
    code = "".join(f"\\{byte:02x}" for byte in architecture.system_call)
    return _TEXT.format(
        W="i64" if wide else "i32", code=code, code_size=len(architecture.system_call),
        loads="\n".join(loads), READ=READ, WRITE=WRITE, EXIT_GROUP=EXIT_GROUP,
        ROW_BYTES=ROW_BYTES,
        widen_served="add i64 %served, 0" if wide else "sext i32 %served to i64",
        next_at="add i64 %next_word, 0" if wide else "trunc i64 %next_word to i32")


@cache
def server_executable(architecture: Architecture) -> bytes:
    """The server as a file that the emulator runs."""
    (data,) = compile_ir([_server_text(architecture)], architecture.machine)
    parsed = read_object(data)
    base = 0x10000
    memory = link(parsed, base + HEADER_BYTES)
    return executable(
        memory, parsed.defined["_start"], machine=parsed.machine, flags=parsed.flags,
        wide=architecture.word_bits == 64, base=base)
