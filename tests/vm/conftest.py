import os

import pytest

import kernel
import programs
import served as served_module
from fixtures import boot, folder, limited, pytest_runtest_makereport
from lossy import Lossy
from programs import Missing

LONG = bool(os.environ.get("VM_LONG"))
# What pytest finds here by its name.
__all__ = ["boot", "folder", "limited", "pytest_runtest_makereport"]


def pytest_sessionstart(session):
    program = served_module.PROGRAM
    if served_module.FACE == "sublet" and not (program and os.access(program, os.X_OK)):
        pytest.exit("set NODE_PROGRAM to a sublet binary, or NODE_FACE=peer for stand-ins", returncode=2)
    for make in (kernel.initramfs, lambda: programs.built("lossyfs")):
        try:
            with programs.alone():
                make()
        except Missing:
            # The tests that need it say so.
            pass


@pytest.fixture
def long():
    """Whether this is the long form, which `cargo xtask soak` runs."""
    return LONG


@pytest.fixture
def served(folder):
    """Somebody who serves disks."""
    who = served_module.served(folder)
    yield who
    who.lose_power()


@pytest.fixture
def lossy(folder):
    """Makes backings that forget. Asked for before `served`, so that it ends after it."""
    made = []

    def make(size, name="lossy"):
        made.append(Lossy(folder, size, name))
        return made[-1]

    yield make
    for each in made:
        each.close()
