-- The same as schema.sql on a cluster of several shards. It has to run on each server; `pyebpf` is the name of the cluster in
-- remote_servers. Agents and pyebpf fleet use any of the servers, or all: profiles and stacks are there on each.
--
-- A node's profiles always come to the same shard, so that one that was sent twice meets itself there; its stacks go with them, so that
-- a shard that is down keeps no other node from sending.
CREATE TABLE IF NOT EXISTS profiles_local
(
    ts DateTime,
    start_ns Int64,
    end_ns Int64,
    type String,
    service String,
    node String,
    lk Array(String),
    lv Array(String),
    profile UInt64,
    period Int64,
    stacks Array(UInt64),
    values Array(Int64)
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(ts)
ORDER BY (service, type, ts, node, profile);

CREATE TABLE IF NOT EXISTS profiles AS profiles_local
ENGINE = Distributed(pyebpf, currentDatabase(), profiles_local, cityHash64(node));

CREATE TABLE IF NOT EXISTS stacks_local
(
    service String,
    node String,
    stack UInt64,
    last_seen DateTime,
    names Array(String),
    files Array(String),
    lines Array(UInt32)
)
ENGINE = ReplacingMergeTree(last_seen)
ORDER BY (service, stack);

CREATE TABLE IF NOT EXISTS stacks AS stacks_local
ENGINE = Distributed(pyebpf, currentDatabase(), stacks_local, cityHash64(node));
