"""The objects that a device's plugin returns from its hooks; written to be read by its author.

Read them in this order. `OpenDevice` is the handle. `Allocator` gives memory and moves bytes to
and from the host. `Renderer` turns a program into text, its `Compiler` the text into a binary,
`Loader` the binary into a `Program` that runs. `CopyQueue` is for devices whose hardware copies.

A method without `@abstractmethod` is optional: core looks whether the class overrides it
(`offers`), so there is no flag to forget. Sizes and offsets are in bytes. Every method may raise;
core shows the message with the plugin's name and version. Errors of `core.foundation.errors` say
most: `OutOfMemoryError` from `allocate`, `CompileError` from `compile`, `DeviceError` elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from core.foundation.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from core.ir import Op, UOp
    from core.plugin.target import Target

#: A block of device memory: whatever `Allocator.allocate` returns; core never looks inside.
Block: TypeAlias = Any
#: A point in a queue: whatever `CopyQueue.submit` returns; core only hands it back to `wait`.
Event: TypeAlias = Any
#: Work groups, or work items of a group, along the three launch axes.
LaunchSize: TypeAlias = "tuple[int, int, int]"


class OpenDevice(ABC):
    """One opened device: `core_open_device` returns it, every later hook receives it.

    Attributes:
        target: What the device can do; set it in `__init__`, it may not change afterwards.
    """

    target: Target

    @abstractmethod
    def synchronize(self) -> None:
        """Return when everything launched on this device so far has finished.

        Raises:
            DeviceError: Something launched earlier has failed.
        """

    def close(self) -> None:  # noqa: B027 - doing nothing is a fine way to close
        """Give the context back. Called at most once, and also when opening fails half way."""


class Allocator(ABC):
    """Memory of one device. core recycles blocks itself, so `allocate` need not be fast."""

    @abstractmethod
    def allocate(self, size_bytes: int) -> Block:
        """A block of at least `size_bytes` (never 0) bytes, aligned to 64; content undefined.

        Raises:
            OutOfMemoryError: No room. core then frees what it keeps for reuse and asks again.
        """

    @abstractmethod
    def free(self, block: Block) -> None:
        """Give back what `allocate` returned; core has waited for whatever used it."""

    @abstractmethod
    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        """Copy all of `source` (contiguous bytes) to `block` from `offset` on.

        The caller may overwrite `source` as soon as this returns. Launches made before see the
        old content, launches made after see the new one.
        """

    @abstractmethod
    def copy_out(self, destination: memoryview, block: Block, offset: int) -> None:
        """Fill `destination` (contiguous, writable bytes) from `block`, `offset` on.

        Returns when the bytes are there, which includes waiting for launches that write them.
        """

    @abstractmethod
    def view(self, block: Block, offset: int, size_bytes: int) -> Block:
        """A block that is a part of `block`, without a copy; never freed by itself.

        Any offset and length inside the block may come, and a view may be viewed again. Where the
        hardware takes no address, return a pair of block and offset, which `Program` adds.
        """

    def map(self, block: Block, owner: OpenDevice) -> Block:
        """The memory of `owner`'s block as a block of this device, without a copy.

        Optional. Raise `UnsupportedError` for an owner whose memory this device cannot reach.
        """
        raise UnsupportedError(f"{type(self).__name__} maps no memory of other devices")

    def host_view(self, block: Block) -> memoryview:
        """The block's bytes as the host sees them: writable, one-dimensional, format ``"B"``.

        Optional: for devices whose memory is host memory. Call `synchronize` before reading.
        """
        raise UnsupportedError(f"{type(self).__name__}'s memory is not visible to the host")

    def wrap(self, memory: memoryview) -> Block:
        """Memory of the host that others own, a mapped file say, as a block; without a copy.

        Optional: for devices whose programs reach the host's memory. Programs only read the block,
        it is never given to `free`, and it is aligned to its elements, not to 64 bytes. Keep
        `memory` for as long as a launch may read it.

        Args:
            memory: One-dimensional, of format ``"B"``; a mapped file, say, may be read-only.
        """
        raise UnsupportedError(f"{type(self).__name__} takes no memory of the host")


class Compiler(ABC):
    """Turns program texts into binaries.

    Attributes:
        key: Everything besides the text that the binary depends on: compiler, version, options,
            architecture. Part of the disk cache's key; empty: never cache on disk.
    """

    key: str = ""

    @abstractmethod
    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """One binary per source, in order. Called with several so that one run serves them all.

        Raises:
            CompileError: With the compiler's words, and in `graph` the source it is about.
        """

    def disassemble(self, binary: bytes) -> str:
        """The binary as text for people (``DEBUG=4``). Optional."""
        raise UnsupportedError(f"{type(self).__name__} cannot disassemble")


class Renderer(ABC):
    """Prints programs as text for one compiler. It decides nothing: the program is final.

    Attributes:
        name: Short name in capitals, as in ``CUDA::LLVM``.
        priority: Among several renderers of a device the highest is the default.
        binary_format: Format of the compiler's binaries; a `Loader` of this format must exist.
        compiler: Turns the text into binaries.
        code_for_op: The elementwise ops that `render` can print: a set, or a mapping whose keys
            count. core lowers every other op to these before it calls `render`.
        rules: Rewrite rules of this renderer (rows of `core.ir.Rule`), applied last, for
            instructions that only this language has.
    """

    name: str
    priority: int = 0
    binary_format: str
    compiler: Compiler
    code_for_op: Collection[Op]
    rules: Sequence[Any] = ()

    @abstractmethod
    def render(self, name: str, linear: UOp) -> str:
        """The text of a program that defines one kernel `name`.

        Args:
            name: A valid identifier in every language, unique in the process.
            linear: LINEAR of the program's ops in order. A value of shape (n,) is a vector of n
                lanes. Its specification is `core.ir.specification.program`.
        """


class Program(ABC):
    """A loaded kernel."""

    @abstractmethod
    def __call__(
        self,
        buffers: Sequence[Block],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Launch the kernel once.

        Args:
            buffers: One block per buffer parameter, in order of slots.
            scalars: Values of the scalar parameters, in order of slots.
            global_size: Work groups along x, y, z; (1, 1, 1) on devices without launch axes.
            local_size: Work items of one group along x, y, z.
            wait: Return only when it has run.

        Returns:
            Seconds that it ran, when `wait` is true and they are known; else None.
        """


class RecordedCall(NamedTuple):
    """One launch of a recorded list.

    Attributes:
        program: What to run; this device's own.
        blocks: For each buffer parameter the number of its block in the list given at a replay.
        offsets: For each of them the first byte in that block.
        scalars: Keys of the scalar arguments among those given at a replay.
        items: Work items: of the threaded loop on a CPU, work groups elsewhere.
        share: Items that a thread takes at a time.
        meet: Every call before this one has to be done when it begins.
        global_size: Work groups along each launch axis.
        local_size: Work items of a group along each.
    """

    program: Program
    blocks: tuple[int, ...]
    offsets: tuple[int, ...]
    scalars: tuple[int, ...]
    items: int
    share: int
    meet: bool
    global_size: LaunchSize = (1, 1, 1)
    local_size: LaunchSize = (1, 1, 1)


class Recording(ABC):
    """A list of launches in one native object."""

    @abstractmethod
    def replay(self, blocks: Sequence[Block], scalars: Mapping[int, int | float]) -> None:
        """Run all launches in order; may be called from several threads.

        Args:
            blocks: The blocks that the calls name by number.
            scalars: The scalar arguments, by the numbers that the calls name.
        """


class Loader(ABC):
    """Makes programs from binaries of one format."""

    @abstractmethod
    def load(self, name: str, binary: bytes) -> Program:
        """The kernel `name` of `binary`, ready to launch.

        Raises:
            DeviceError: The binary is not for this device.
        """

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """Bind a whole list of launches into one object that replays it.

        Optional; without it core replays launch by launch.

        Args:
            calls: The launches, in order.
            support: Binaries of programs that core wrote for the device's command list:
                ``"worker"``, ``"replay"`` and ``"stop"`` of `core.runtime.worker_programs`.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot record launches")


class CopyQueue(ABC):
    """Copies made by hardware, beside the kernels. Without one, core copies with a kernel."""

    @abstractmethod
    def submit(
        self,
        destination: Block,
        destination_offset: int,
        source: Block,
        source_offset: int,
        size_bytes: int,
    ) -> Event:
        """Start a copy into a block of this device, from one of its blocks or a mapped one.

        It sees what launches made before have written, and launches made after see the copy: the
        queue and the device order that between them, the host waits for nothing.
        """

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Return when the copy of `event`, and those submitted before it, are done.

        Called where the other side is another device, which does not know of this queue.
        """


def offers(instance: object, method: str) -> bool:
    """Whether an optional method of an interface is overridden by the class of `instance`.

    Example: ``offers(allocator, "host_view")``.
    """
    own = getattr(type(instance), method, None)
    for base in type(instance).__mro__:
        if base.__module__ == __name__ and method in vars(base):
            return own is not vars(base)[method]
    return own is not None
