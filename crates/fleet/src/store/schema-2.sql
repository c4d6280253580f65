-- Whose numbers of nodes are whose.
-- When the wanted number changed, and whether a person asked for it.
ALTER TABLE planes ADD COLUMN nodes_since BIGINT;
ALTER TABLE planes ADD COLUMN nodes_by_hand BIGINT NOT NULL DEFAULT 0;
-- What was last sent to the provider, and the wanted number that it had last.
ALTER TABLE planes ADD COLUMN nodes_sent BIGINT;
ALTER TABLE planes ADD COLUMN nodes_confirmed BIGINT;
-- The wanted number of which all nodes were there.
ALTER TABLE planes ADD COLUMN nodes_reached BIGINT;
-- Why the provider cannot make them, if it says so.
ALTER TABLE planes ADD COLUMN nodes_failed TEXT NOT NULL DEFAULT '';
-- Why brokers cannot be placed on its nodes, if the agent says so.
ALTER TABLE planes ADD COLUMN unsuitable TEXT NOT NULL DEFAULT '';

-- The data plane that grows for a Kafka that waits.
ALTER TABLE kafkas ADD COLUMN growing_plane_id TEXT;

-- Regions that need a data plane and may not get one: why, and since when.
CREATE TABLE regions (
    cloud_provider TEXT NOT NULL,
    region         TEXT NOT NULL,
    held           TEXT NOT NULL,
    since          BIGINT NOT NULL,
    PRIMARY KEY (cloud_provider, region)
);

-- A cluster of a provider is one data plane.
CREATE UNIQUE INDEX planes_by_provider_id ON planes (provider_type, provider_id)
    WHERE deleted_at IS NULL AND provider_id IS NOT NULL;
