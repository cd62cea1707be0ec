"""scikit-learn computes with Tensors where it dispatches by the Array API standard."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import numpy as np
    import sklearn
    from sklearn import metrics, preprocessing
    from core import Tensor

    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3)).astype(np.float32)
    labels, guesses = rng.integers(0, 2, 20), rng.integers(0, 2, 20)
    with sklearn.config_context(array_api_dispatch=True):
        scaled = preprocessing.MinMaxScaler().fit_transform(Tensor(x))
        accuracy = metrics.accuracy_score(Tensor(labels), Tensor(guesses))
        error = metrics.mean_squared_error(Tensor(x[:, 0]), Tensor(x[:, 1]))
    assert isinstance(scaled, Tensor)
    assert np.allclose(scaled.numpy(), (x - x.min(0)) / (x.max(0) - x.min(0)), atol=1e-6)
    assert abs(accuracy - (labels == guesses).mean()) < 1e-6
    assert abs(error - ((x[:, 0] - x[:, 1]) ** 2).mean()) < 1e-5
    print("computed")
""")


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None,
                    reason="scikit-learn is not installed: pip install scikit-learn")
def test_scaling_and_metrics():
    """In a process of its own: scipy asks for the variable when it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "SCIPY_ARRAY_API": "1"})
    assert done.stdout == "computed\n", done.stderr
