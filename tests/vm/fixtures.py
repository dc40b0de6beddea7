"""What the suites with real programs have in common: what a test skips for, folders, cgroups and guests."""

import os
import shutil
import tempfile

import pytest

from guest import Guest
from limited import Limited
from programs import Missing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What is missing on this machine skips a test; where CI is set it fails, as nothing may be left out there."""
    missing = call.excinfo is not None and call.excinfo.errisinstance(Missing)
    report = yield
    if missing and not is_strict():
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {call.excinfo.value}")
    return report


def is_strict():
    return os.environ.get("CI", "") not in ("", "false")


@pytest.fixture
def folder():
    """A folder whose path is short enough for sockets; kept if VM_KEEP is set."""
    path = tempfile.mkdtemp(prefix="vm-")
    yield path
    if os.environ.get("VM_KEEP"):
        print(f"kept: {path}")
    else:
        shutil.rmtree(path)


@pytest.fixture
def limited():
    """Makes cgroups with a limit on memory. Asked for before the daemons in them, so that it ends after these."""
    made = []

    def make(limit, name="limited"):
        made.append(Limited(name, limit))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def boot(folder):
    """Boots guests, and ends them after the test: boot(NAME, MIB, {NAME: Drive}), with `memory` as a Guest has it."""
    booted = []

    def start(name, mib, drives, **kinds):
        booted.append(Guest(folder, name, mib, drives, **kinds))
        return booted[-1].start()

    yield start
    for guest in booted:
        guest.kill()
