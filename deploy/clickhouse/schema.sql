-- What `pyebpf agent --sink clickhouse=...` writes to, on one server: clickhouse-client --multiquery < schema.sql
--
-- A row of profiles is one service on one node over one window, for one type of value (samples/count, cpu/nanoseconds, ...):
-- the hashes of its stacks, and their values in the same order. `profile` is a hash of the whole profile: a row that is
-- sent twice has the same key, and SELECT ... FROM profiles FINAL sees it once.
--
-- On replicated tables write ReplicatedReplacingMergeTree(...): they drop a block that comes twice at once.
CREATE TABLE IF NOT EXISTS profiles
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

-- Outermost frame first. A stack is sent once a day by each agent.
CREATE TABLE IF NOT EXISTS stacks
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
