-- Passwords of the owners of Kafkas. A password is kept until the agent has stored it in the data plane.
CREATE TABLE credentials (
    kafka_id   TEXT NOT NULL,
    username   TEXT NOT NULL,
    -- Changes with the password.
    id         TEXT NOT NULL,
    password   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    stored_at  BIGINT,
    PRIMARY KEY (kafka_id, username)
);

-- The certificate authority of a Kafka, in PEM.
ALTER TABLE kafkas ADD COLUMN ca_certificate TEXT NOT NULL DEFAULT '';

-- Tokens that the manager gives out itself. Only a hash of each is kept.
CREATE TABLE api_tokens (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    hash         TEXT NOT NULL,
    role         TEXT NOT NULL,
    -- Of a user.
    username     TEXT,
    organisation TEXT,
    -- Of an agent.
    plane_id     TEXT,
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT
);
CREATE UNIQUE INDEX api_tokens_by_hash ON api_tokens (hash);

-- Pages and counts of many rows.
CREATE INDEX kafkas_there ON kafkas (id) WHERE deleted_at IS NULL;
CREATE INDEX planes_there ON planes (created_at, id) WHERE deleted_at IS NULL;
