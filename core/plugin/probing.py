"""Asking for hardware in a child process, and remembering the answers.

A driver may hang or crash when it is asked whether there is a device. So probes run in one child
process with a time limit; when one of them takes the child down, that is its verdict, and a new
child asks the rest. Verdicts are kept on disk until the plugin's version, the machine's boot or a
variable that hides devices changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from core.foundation.folders import cache_folder, write_atomically
from core.foundation.settings import settings
from core.plugin.catalogue import Described
from core.plugin.verdict import Verdict

#: A task of the child: key, action, arguments.
Task = tuple[str, ...]

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from core.plugin.child import main; main()"
)
#: Environment variables with these in their names may hide or add devices.
_HIDING: Final = ("VISIBLE_DEVICES", "DEVICE_ORDINAL", "ICD", "VK_DRIVER", "LD_LIBRARY_PATH")
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def run_tasks(tasks: Sequence[Task]) -> dict[str, Any]:
    """Run tasks in a child process; every task gets an answer.

    Returns:
        By key: the JSON answer, or ``{"count": 0, "reason": ..., "fault": True}``.
    """
    answers: dict[str, Any] = {}
    waiting = list(tasks)
    while waiting:
        output, ending = _run_child(waiting)
        for line in output.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "end":
                key, _, text = rest.partition(" ")
                with suppress(ValueError):  # a line cut off by a crash
                    answers[key] = json.loads(text)
        left = [task for task in waiting if task[0] not in answers]
        if left:  # tasks run in order, so the first one without an answer ended the child
            answers[left[0][0]] = {"count": 0, "reason": ending, "fault": True}
        waiting = left[1:]
    return answers


def _run_child(tasks: Sequence[Task]) -> tuple[str, str]:
    """What the child wrote, and how it ended, in words."""
    path = json.dumps([str(folder) for folder in sys.path])
    command = [sys.executable, "-c", _START, path, json.dumps(tasks)]
    try:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    except OSError as error:  # no interpreter of its own where Python is embedded
        return "", f"the probe could not be started: {error}"
    with started as child:
        try:
            output, _ = child.communicate(timeout=settings.PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(child)
            output, _ = child.communicate()
            return output, f"the probe did not answer within {settings.PROBE_SECONDS} s"
        except BaseException:  # Ctrl-C: leave no child behind
            _kill(child)
            raise
    status = child.returncode
    if status < 0:
        return output, f"the probe crashed with {signal.Signals(-status).name}"
    return output, f"the probe ended its process with status {status}"


def _kill(child: subprocess.Popen[str]) -> None:
    """End the child and what it started: a grandchild would keep the pipe open."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def verdicts(devices: Iterable[Described], *, renew: bool = False) -> dict[str, Verdict]:
    """The verdict on each device that has a probe, from disk where it is known.

    Args:
        devices: Described devices; those without a probe are left out.
        renew: Ask again, whatever is on disk.
    """
    wanted = {d.spec.name: d for d in devices if d.spec.probe}
    keys = {name: _key(described) for name, described in wanted.items()}
    stored = {} if renew else _read()
    found: dict[str, Verdict] = {}
    for name, key in keys.items():
        with suppress(KeyError, TypeError):
            found[name] = Verdict(**stored[key])
    missing = [name for name in wanted if name not in found]
    if missing:
        answers = run_tasks([(name, "probe", wanted[name].spec.probe) for name in missing])
        for name in missing:
            answer = answers[name]
            found[name] = Verdict(answer["count"], answer["reason"], answer.get("fault", False))
        _write({keys[name]: asdict(found[name]) for name in missing})
    return found


def _key(described: Described) -> str:
    """Everything that a verdict depends on."""
    hiding = {k: v for k, v in os.environ.items() if any(part in k for part in _HIDING)}
    try:
        boot = Path(_BOOT_ID).read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    offer = described.offer
    parts = (described.spec.probe, offer.source, offer.metadata, boot, sorted(hiding.items()))
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    return f"{described.spec.name}-{digest}"


def _file() -> Path:
    return cache_folder() / "probes.json"


def _read() -> dict[str, Any]:
    """Verdicts on disk; none when the file is missing or damaged."""
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(new: dict[str, Any]) -> None:
    """Keep verdicts; a folder that cannot be written only costs time at the next start."""
    names = {key.rpartition("-")[0] for key in new}
    kept = {key: value for key, value in _read().items() if key.rpartition("-")[0] not in names}
    with suppress(OSError):
        write_atomically(_file(), json.dumps({**kept, **new}, indent=1).encode())
