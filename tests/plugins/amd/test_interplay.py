"""AMD beside other devices: copies both ways, a model over two, two threads, equal losses."""

import os
from threading import Thread

import numpy as np
import pytest

pytest.importorskip("pyopencl", reason="the library pyopencl is not installed")
pytest.importorskip("core_plugin_amd", reason="core-plugin-amd is not installed")

from core import Context, Tensor, nn
from core.plugin import DeviceError
from core.runtime.device import open_device


@pytest.fixture(scope="module", autouse=True)
def amd():
    """AMD, on any OpenCL device."""
    os.environ["CORE_AMD_ANY_OPENCL"] = "1"
    try:
        return open_device("AMD")
    except DeviceError as error:
        pytest.skip(f"no OpenCL device opens: {error}")


def beside():
    """The devices that open here beside AMD."""
    found = []
    for name in ("CPU", "WEBGPU", "REFERENCE", "CL"):
        try:
            found.append(open_device(name).name)
        except DeviceError:
            continue
    return found


@pytest.mark.parametrize("path", ["", "host", "kernel", "queue", "map"])
def test_copies_there_and_back(path):
    """A path that a pair lacks refuses in words; every other gives the same bytes."""
    data = np.arange(10_007, dtype=np.float32)
    went, refused = 0, []
    for other in beside():
        for first, second in (("AMD", other), (other, "AMD")):
            try:
                with Context(COPY=path):
                    there = Tensor(data, device=first).realize().to(second).realize()
                    assert np.array_equal(there.to(first).realize().numpy(), data)
            except DeviceError as error:
                refused.append(str(error))
            else:
                went += 1
    assert all(path in said for said in refused)
    assert went == 2 * len(beside()) if path in ("", "host") else went or refused


def test_layers_on_different_devices():
    """Forward and gradients cross from AMD to another device and back."""
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 12), (12, 4)))

    def gradients(first, second):
        inner = Tensor(w, device=first, requires_grad=True)
        outer = Tensor(v, device=second, requires_grad=True)
        hidden = (Tensor(x, device=first) @ inner).relu()
        loss = ((hidden.to(second) @ outer) ** 2).mean()
        loss.backward()
        return loss.numpy(), inner.grad.numpy(), outer.grad.numpy()

    wanted = gradients("AMD", "AMD")
    for other in beside():
        for found in (gradients("AMD", other), gradients(other, "AMD")):
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_two_devices_from_two_threads():
    other = beside()[0]
    data = np.arange(4096, dtype=np.float32).reshape(64, 64) / 4096
    wanted = data @ data + 1
    results, errors = {}, []

    def work(device):
        try:
            for k in range(10):
                x = Tensor(data + k * 0, device=device)
                results[device, k] = (x @ x + 1.0).numpy()
        except Exception as error:  # noqa: BLE001 - a thread's error is the test's
            errors.append(error)

    threads = [Thread(target=work, args=(d,)) for d in ("AMD", other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(results) == 20
    for result in results.values():
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_five_steps_lose_what_the_reference_loses():
    """A small network's loss after 5 fixed steps, relative to that of the first other device."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((32, 64)).astype(np.float32)
    labels = rng.integers(0, 10, 32).astype(np.int32)
    weights = [rng.standard_normal(s).astype(np.float32) * 0.1 for s in ((64, 32), (32, 10))]

    def loss_after_steps(device):
        w, v = (Tensor(a, device=device, requires_grad=True) for a in weights)
        optimizer = nn.SGD([w, v], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            logits = (Tensor(x, device=device) @ w).relu() @ v
            loss = logits.cross_entropy(Tensor(labels, device=device))
            loss.backward()
            optimizer.step()
        return float(loss.numpy())

    np.testing.assert_allclose(loss_after_steps("AMD"), loss_after_steps(beside()[0]), rtol=1e-4)
