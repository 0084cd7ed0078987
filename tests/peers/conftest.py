# SPDX-License-Identifier: Apache-2.0
"""A test that fails on a node shows what its programs, its pods and the agent said."""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster:
        report.sections.append(("the node", cluster.said()))
