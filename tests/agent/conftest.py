# SPDX-License-Identifier: Apache-2.0
"""Servers that are started once for all tests of this folder."""
import pytest

import clickhouse


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory):
    cluster = clickhouse.Cluster(tmp_path_factory.mktemp("clickhouse"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(running_cluster):
    running_cluster.empty()
    return running_cluster
