-- The history of a region, however much is decided about data planes.
CREATE INDEX decisions_by_region ON decisions (region, id) WHERE region IS NOT NULL;
