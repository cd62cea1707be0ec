"""Programs are printed as plain C, compiled by cc into shared objects and loaded by ctypes."""

import ctypes
import os
import platform
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from core import plugin
from core.plugin.host_memory import HostMemory, address_of
from core.render import PLAIN_C, c_code_for_op, pack_arguments, render_c

COMMAND = ["cc", "-O2", "-ftree-vectorize", "-march=native", "-shared", "-fPIC", *PLAIN_C.flags]


def run(*options, text=""):
    command = [*COMMAND, *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise plugin.CompileError(f"cc says: {done.stderr}", graph=text)
    return done.stdout


class CDevice(plugin.OpenDevice):
    def __init__(self):
        self.target = plugin.Target(
            name="CC",
            architecture=platform.machine(),
            dtypes=frozenset(PLAIN_C.types),
            vector_bytes=32,
            scratch_bytes=1 << 18,
            wide_index=True,
            fork_safe=True,
        )

    def synchronize(self):
        pass  # a launch returns when it is done


class CCompiler(plugin.Compiler):
    def __init__(self):
        # What cc predefines tells its version, and with -march=native the processor.
        self.key = f"{COMMAND} {run('-dM', '-E', '-x', 'c', '-')}"

    def compile(self, sources):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self.compile_one, sources))

    def compile_one(self, source):
        with tempfile.NamedTemporaryFile() as file:
            run("-x", "c", "-", "-o", file.name, "-lm", text=source)
            return file.read()


class CRenderer(plugin.Renderer):
    name = "C"
    binary_format = "shared-object"
    code_for_op = c_code_for_op()

    def __init__(self):
        self.compiler = CCompiler()

    def render(self, name, linear):
        return render_c(name, linear)


class CProgram(plugin.Program):
    def __init__(self, name, binary):
        with tempfile.NamedTemporaryFile() as file:
            file.write(binary)
            file.flush()
            try:
                self.function = ctypes.CDLL(file.name)[name]
            except OSError as error:
                raise plugin.DeviceError(f"{name} is no shared object: {error}") from error
        self.function.argtypes = [ctypes.c_char_p, *[ctypes.c_int64] * 3]

    def __call__(self, buffers, scalars, global_size=(1, 1, 1), local_size=(1, 1, 1), wait=False):
        arguments = pack_arguments(map(address_of, buffers), scalars)
        start = time.perf_counter()
        self.function(arguments, 0, global_size[0], 0)
        return time.perf_counter() - start if wait else None


class CLoader(plugin.Loader):
    def load(self, name, binary):
        return CProgram(name, binary)


@plugin.hookimpl
def core_open_device():
    return CDevice()


@plugin.hookimpl
def core_renderers():
    return [CRenderer()]


@plugin.hookimpl
def core_allocator():
    return HostMemory()


@plugin.hookimpl
def core_loader(binary_format):
    return CLoader() if binary_format == CRenderer.binary_format else None
