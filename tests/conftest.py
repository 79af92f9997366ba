"""No test is timed; and in continuous integration nothing may be skipped: what a test needs is there, or it fails."""

import os
from collections.abc import Generator

import hypothesis
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests share the cores already
os.environ.pop("COLUMNS", None)  # which pytest-xdist sets: tables are as wide as where there is no terminal

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if os.environ.get("SPOTBENCH_CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
