"""One emulator process: started on shared memory, asked by a socket, ended with its last words."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import weakref
from typing import Final

from core.plugin import DeviceError
from core_plugin_qemu.architectures import Architecture
from core_plugin_qemu.memory import CODE_AT, Arena, SharedMemory
from core_plugin_qemu.server import (
    ANSWER,
    MMAP,
    MPROTECT,
    REQUEST,
    SYSTEM_CALL,
    server_executable,
)

_INSTALL: Final = "apt-get install qemu-user"
_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 2.0
_READ_WRITE, _READ_EXECUTE, _SHARED = 3, 5, 1
_LARGEST_ERRNO: Final = 4096
_OFFSET_UNIT: Final = 4096  # of a file, where addresses have 32 bits: the call is mmap2


def find_emulator(architecture: Architecture) -> str:
    """Path of the emulator.

    Raises:
        DeviceError: It is not on the path.
    """
    found = shutil.which(architecture.emulator)
    if found is None:
        raise DeviceError(f"{architecture.emulator} is not on the path", cure=_INSTALL)
    return found


class Emulator:
    """A process that has mapped the memory and waits for requests.

    Attributes:
        bases: Address of each arena's first byte in it.

    Args:
        architecture: What to emulate.
        memory: Shared with it.
        command: Path of the emulator.

    Raises:
        DeviceError: It does not start, or cannot map the memory.
    """

    def __init__(self, architecture: Architecture, memory: SharedMemory, command: str) -> None:
        self._architecture, self._memory, self._command = architecture, memory, command
        program = os.memfd_create("core-qemu-server")
        self._socket, theirs = socket.socketpair()
        try:
            with open(program, "wb", closefd=False) as file:
                file.write(server_executable(architecture))
            self._process = subprocess.Popen(
                [command, *architecture.options, f"/proc/self/fd/{program}"],
                stdin=theirs.fileno(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
                # A session of its own: Ctrl-C is for the host, which decides what to do.
                pass_fds=(memory.descriptor, program), start_new_session=True)
        except OSError as error:
            raise DeviceError(f"{command} does not start: {error}", cure=_INSTALL) from error
        finally:
            os.close(program)
            theirs.close()
        self._stop = weakref.finalize(self, _stop, self._process, self._socket, os.getpid())
        self._forbid_core_dumps()
        try:
            self.bases: list[int] = []
            for arena in memory.arenas:
                self.map_arena(arena)
            code = memory.code_end - CODE_AT
            self._system_call("mprotect", MPROTECT, self.bases[0] + CODE_AT, code, _READ_EXECUTE)
        except BaseException:
            self._stop()
            raise

    def _forbid_core_dumps(self) -> None:
        """A fault is an error of the host, which names the kernel; a file would help nobody."""
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))

    def map_arena(self, arena: Arena) -> None:
        """Map an arena; the emulator must be idle.

        Raises:
            DeviceError: It cannot.
        """
        offset, wanted = arena.start, self._architecture.memory_at
        if wanted:
            wanted += arena.start
        if self._architecture.word_bits == 32:
            offset //= _OFFSET_UNIT
        file = self._memory.descriptor
        self.bases.append(self._system_call(
            "mmap", MMAP, wanted, arena.size, _READ_WRITE, _SHARED, file, offset))

    def _system_call(self, name: str, number: int, *arguments: int) -> int:
        """Let the process make a system call; its result as an address."""
        padded = (*arguments, *[0] * (6 - len(arguments)))
        self.send(REQUEST.pack(SYSTEM_CALL, number, *padded))
        try:
            answers = self.answers(1, _START_SECONDS)
        except TimeoutError:
            raise DeviceError(
                f"{self._command} did not answer within {_START_SECONDS:.0f} s") from None
        if not answers:
            raise DeviceError(f"{self._command} ends at its start: {self.end()[1]}",
                              cure="`core doctor QEMU` shows its version; 7.2 is known to work")
        (result,) = answers
        if -_LARGEST_ERRNO < result < 0:
            raise DeviceError(
                f"{self._architecture.emulator} cannot map shared memory: {name} says: "
                f"{os.strerror(-result)}")
        return result & ((1 << self._architecture.word_bits) - 1)

    def send(self, request: bytes) -> bool:
        """Hand a request over; False if the process is gone."""
        try:
            self._socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def answers(self, count: int, seconds: float) -> list[int]:
        """Some of the next `count` answers; none if the process ended instead.

        Raises:
            TimeoutError: There was none for so long.
        """
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(count * ANSWER.size)
        except ConnectionResetError:
            return []
        return [found for (found,) in ANSWER.iter_unpack(data)]

    @property
    def process_id(self) -> int:
        """Its number, for tests and people."""
        return int(self._process.pid)

    def end(self, *, kill: bool = False) -> tuple[int, str]:
        """End the process: what it ended with (minus a signal's number), and in words.

        Args:
            kill: At once; else it is ending by itself.
        """
        process = self._process
        if kill:
            process.kill()
        try:
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        said = b"" if process.stdout is None else process.stdout.read()
        self._stop()
        lines = said.decode(errors="replace").strip().splitlines() or [""]
        words = next((line for line in lines if line.startswith(("qemu", "ERROR"))), lines[0])
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        return code, f"{how}, {words}" if words else how

    def close(self) -> None:
        """End it and forget it."""
        self._stop()


def _stop(process: subprocess.Popen[bytes], connection: socket.socket, owner: int) -> None:
    """End a process and what leads to it; not in a forked child: its parent goes on using it."""
    if os.getpid() != owner:
        return
    if process.poll() is None:
        process.kill()
        process.wait()
    connection.close()
    if process.stdout is not None:
        process.stdout.close()
