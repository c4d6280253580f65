-- What administrators permit in place of the defaults. Without an owner it is for the organisation.
CREATE TABLE quotas (
    organisation TEXT NOT NULL,
    owner        TEXT NOT NULL,
    kafkas       BIGINT NOT NULL,
    connections  BIGINT NOT NULL,
    partitions   BIGINT NOT NULL,
    PRIMARY KEY (organisation, owner)
);
CREATE INDEX kafkas_by_organisation ON kafkas (organisation, owner) WHERE deleted_at IS NULL;

CREATE INDEX audit_by_time ON audit (at);
