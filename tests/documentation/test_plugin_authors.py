"""docs/plugin-authors.md, followed to the letter from an empty folder; messages; signatures."""

import ast
import re
import shutil
from pathlib import Path

import pytest

from core.plugin import API
from core.testing.fresh_environment import FreshEnvironment
from core.tools.plugin_reference import frozen_signatures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugin-authors.md").read_text(encoding="utf-8")
MESSAGES = (ROOT / "docs" / "error-messages.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"(?:<!-- (file|append|prints|full)(?:: (\S+))? -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


def follow(page, environment, folder, *, full):
    """Do what a page says, block by block; returns how many blocks were done."""
    printed, done = "", 0
    for mark, place, language, text in BLOCK.findall(page):
        if mark in ("file", "append"):
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() + "\n\n" if mark == "append" else ""
            path.write_text(before + text)
        elif mark == "prints":
            assert [line for line in text.splitlines() if line not in printed] == []
        elif language == "bash" and (full or mark != "full"):
            printed = environment.check(["bash", "-ec", text], folder)
        else:
            continue
        done += 1
    return done


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.parametrize("full", [
    False, pytest.param(True, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_who_follows_the_page_has_a_device(full, tmp_path):
    environment = FreshEnvironment(tmp_path)
    environment.install(ROOT)
    folder = tmp_path / "empty"
    folder.mkdir()
    assert follow(PAGE, environment, folder, full=full) >= 9
    assert environment.check(["core", "plugin", "list"], folder).count("core-plugin-toy") == 1


# What plugins rely on, by number of the API. A line that is gone or changed needs a new major
# number; a new one that devices may do without needs a new minor number, and an entry here.
FROZEN = {(1, 0): """
core_devices() -> Sequence[DeviceSpec]
core_checks(name: str) -> Sequence[Check]
core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice
core_renderers(device: OpenDevice) -> Sequence[Renderer]
core_allocator(device: OpenDevice) -> Allocator
core_copy_queue(device: OpenDevice) -> CopyQueue | None
core_loader(device: OpenDevice, binary_format: str) -> Loader | None
core_event(event: Event)
OpenDevice.synchronize() [must]
OpenDevice.close() [may]
Allocator.allocate(size_bytes: int) -> Block [must]
Allocator.free(block: Block) [must]
Allocator.copy_in(block: Block, offset: int, source: memoryview) [must]
Allocator.copy_out(destination: memoryview, block: Block, offset: int) [must]
Allocator.view(block: Block, offset: int, size_bytes: int) -> Block [must]
Allocator.map(block: Block, owner: OpenDevice) -> Block [may]
Allocator.host_view(block: Block) -> memoryview [may]
Allocator.wrap(memory: memoryview) -> Block [may]
Renderer.render(name: str, linear: UOp) -> str [must]
Compiler.compile(sources: Sequence[str]) -> list[bytes] [must]
Compiler.disassemble(binary: bytes) -> str [may]
Loader.load(name: str, binary: bytes) -> Program [must]
Loader.record(calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording [may]
Program.__call__(buffers: Sequence[Block], scalars: Sequence[int | float], \
global_size: LaunchSize = (1, 1, 1), local_size: LaunchSize = (1, 1, 1), wait: bool = False) \
-> float | None [must]
CopyQueue.submit(destination: Block, destination_offset: int, source: Block, source_offset: int, \
size_bytes: int) -> Event [must]
CopyQueue.wait(event: Event) [must]
Recording.replay(blocks: Sequence[Block], scalars: Mapping[int, int | float]) [must]
"""}


def test_signatures_are_frozen():
    assert frozen_signatures() == FROZEN[API].strip().splitlines()


def fragments(node):
    """The fixed parts of a message."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [v.value for v in node.values if isinstance(v, ast.Constant)]
    if isinstance(node, ast.BinOp):
        return [*fragments(node.left), *fragments(node.right)]
    return []


def said_by(node):
    """Expressions of which the first with text in it is a message."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in ("_fail", "warn", "Failure", "Verdict", "_row") or (
                name.endswith("Error") and name != "HookError"):
            return node.args
    # Messages that a function returns for another to raise or to report.
    if isinstance(node, ast.Return) or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) != "cure"):
        value = node.value
        values = value.elts if isinstance(value, ast.Tuple) else (
            value.values if isinstance(value, ast.Dict) else [value])
        return [v for v in values if isinstance(v, ast.JoinedStr)]
    return []


def messages():
    """(place, longest fixed part) of every error, warning and reason of the plugin layer."""
    for file in sorted((ROOT / "core" / "plugin").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = next(filter(None, map(fragments, said_by(node))), [])
            words = max(parts, key=len, default="").strip(" :;,'()[")
            if words.count(" ") >= (1 if isinstance(node, ast.Call) else 2):
                yield f"{file.name}:{node.lineno}", words


@pytest.mark.parametrize(("place", "words"), list(messages()))
def test_every_message_is_in_the_catalogue(place, words):
    assert words in MESSAGES, f"{place}: add the message to docs/error-messages.md, cause and cure"


def test_the_catalogue_holds_no_message_that_is_gone():
    said = "\n".join(text for file in (ROOT / "core").rglob("*.py")
                     for node in ast.walk(ast.parse(file.read_text())) for text in fragments(node))
    rows = [line.split(" | ")[0].lstrip("| ") for line in MESSAGES.splitlines()
            if line.startswith("| ") and not line.startswith("| message")]
    parts = [max(re.split("…| / ", row), key=len).strip(" :;,'().") for row in rows]
    assert len(parts) > 40
    assert [part for part in parts if part not in said] == []
