"""Mixed machines, planned fork by fork: what a plan says of itself, and that like devices are planned as ever."""

from __future__ import annotations

import subprocess
import sys


def test_a_mixed_machine_is_loaded_again_and_again() -> None:
    """In a process of its own, where nothing was imported before."""
    code = "import hypar; print([hypar.load_mixed('tpu-v2-v3').num_devices for _ in range(2)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[256, 256]"
