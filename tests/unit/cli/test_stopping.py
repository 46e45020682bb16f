"""
Signals, and the last resort.
"""

import subprocess
import sys

import pytest

STUBBORN = """
import threading
from uns.entrypoints.cli.stopping import end_by
end_by({seconds})
threading.Thread(target=threading.Event().wait, args=({lasts},)).start()
"""
STARTING = """
import signal, time
from uns.entrypoints.cli.stopping import stop_while_starting
stop_while_starting()
signal.raise_signal(signal.{name})
time.sleep(30)
"""


def status_of(program):
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20, check=False)
    return run.returncode


@pytest.mark.parametrize(("seconds", "lasts", "status"), [(0.1, 30, 1), (30, 0.1, 0)])
def test_what_does_not_end_is_left_behind(seconds, lasts, status):
    """
    Given work that goes on when all else has ended, when its time is up, then the process ends without
    it, and tells so by its status; work that ends before is not hurried.
    """
    assert status == status_of(STUBBORN.format(seconds=seconds, lasts=lasts))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_during_the_start_ends_it_well(name):
    """
    When a service is told to stop before it serves, then it ends at once, with status 0.
    """
    assert 0 == status_of(STARTING.format(name=name))
