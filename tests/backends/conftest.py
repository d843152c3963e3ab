"""The compiled kernels for a test session, in a folder of its own."""

import os
import shutil

import pytest

from sureprox.base.private import private_directory
from sureprox.kernels.runtime import library


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """A cache directory that holds the compiled library."""
    if shutil.which(os.environ.get("CXX") or "c++") is None:
        pytest.skip("no C++ compiler here")
    folder = tmp_path_factory.mktemp("cache")
    library.library(build=True)  # which the process that starts the tests has built
    built = sorted(library.folder().glob("*.so"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREPROX_CACHE", str(folder))
        for file in built:
            shutil.copy2(file, private_directory(library.folder()))
        library.forget()
        assert library.library(build=True) is not None, library.native_status()
    library.forget()
    return folder


@pytest.fixture
def native(kept, monkeypatch):
    """The kernels are used within the test."""
    monkeypatch.setenv("SUREPROX_CACHE", str(kept))
    library.forget()
    yield kept
    library.forget()
