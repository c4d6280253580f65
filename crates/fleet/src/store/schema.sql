-- Only TEXT and BIGINT, which SQLite and PostgreSQL read alike: flags are 0 or 1, times are milliseconds
-- since 1970, lists are JSON. Rows are never deleted, but get a deleted_at.

CREATE TABLE planes (
    id             TEXT PRIMARY KEY,
    cloud_provider TEXT NOT NULL,
    region         TEXT NOT NULL,
    multi_az       BIGINT NOT NULL,
    provider_type  TEXT NOT NULL,
    -- What the provider calls it; nothing until it was asked to make it.
    provider_id    TEXT,
    state          TEXT NOT NULL,
    draining       BIGINT NOT NULL DEFAULT 0,
    -- Why it goes: a person, or because it is empty.
    removed_by_hand BIGINT NOT NULL DEFAULT 0,
    -- How far the way out has come: confirmed, identity, account.
    removal        TEXT,
    -- How many nodes are wanted; nothing until somebody wanted any.
    nodes_wanted   BIGINT,
    -- What the provider said last, and when.
    nodes_desired  BIGINT,
    nodes_actual   BIGINT,
    nodes_asked_at BIGINT,
    last_step_up   BIGINT,
    last_seen      BIGINT,
    sequence       BIGINT,
    report         TEXT,
    broken         TEXT NOT NULL DEFAULT '',
    state_reason   TEXT NOT NULL DEFAULT '',
    step_reason    TEXT NOT NULL DEFAULT '',
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    deleted_at     BIGINT
);
CREATE INDEX planes_by_region ON planes (cloud_provider, region) WHERE deleted_at IS NULL;

CREATE TABLE kafkas (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    owner          TEXT NOT NULL,
    organisation   TEXT NOT NULL,
    cloud_provider TEXT NOT NULL,
    region         TEXT NOT NULL,
    multi_az       BIGINT NOT NULL,
    instance_type  TEXT NOT NULL,
    size_id        TEXT NOT NULL,
    status         TEXT NOT NULL,
    reason         TEXT NOT NULL DEFAULT '',
    plane_id       TEXT,
    placement_id   TEXT NOT NULL,
    bootstrap      TEXT NOT NULL DEFAULT '',
    version        TEXT NOT NULL DEFAULT '',
    connections    BIGINT NOT NULL,
    partitions     BIGINT NOT NULL,
    throughput     BIGINT NOT NULL,
    retention      BIGINT NOT NULL,
    -- When the agent first told of it, and whether a report since then has counted it.
    reported_at    BIGINT,
    counted        BIGINT NOT NULL DEFAULT 0,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    deleted_at     BIGINT
);
CREATE UNIQUE INDEX kafkas_by_name ON kafkas (name) WHERE deleted_at IS NULL;
CREATE INDEX kafkas_by_plane ON kafkas (plane_id) WHERE deleted_at IS NULL;
CREATE INDEX kafkas_by_status ON kafkas (status) WHERE deleted_at IS NULL;
CREATE INDEX kafkas_uncounted ON kafkas (plane_id) WHERE deleted_at IS NULL AND counted = 0;

CREATE TABLE decisions (
    id       TEXT PRIMARY KEY,
    at       BIGINT NOT NULL,
    plane_id TEXT,
    region   TEXT,
    kind     TEXT NOT NULL,
    was      TEXT NOT NULL,
    becomes  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    dry_run  BIGINT NOT NULL
);
CREATE INDEX decisions_by_plane ON decisions (plane_id, id);

CREATE TABLE audit (
    id      TEXT PRIMARY KEY,
    at      BIGINT NOT NULL,
    subject TEXT NOT NULL,
    method  TEXT NOT NULL,
    path    TEXT NOT NULL,
    status  BIGINT NOT NULL
);

CREATE TABLE leases (
    kind    TEXT PRIMARY KEY,
    holder  TEXT NOT NULL,
    expires BIGINT NOT NULL,
    -- Grows with each new holder.
    term    BIGINT NOT NULL
);

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
