-- +goose Up
CREATE TABLE evaluations (
    organisation TEXT NOT NULL,
    agent TEXT NOT NULL,
    digest TEXT NOT NULL,
    revision TEXT NOT NULL,
    model TEXT NOT NULL,
    cases TEXT NOT NULL,
    recorded_by TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (organisation, agent, digest)
);
CREATE INDEX evaluations_latest ON evaluations (organisation, agent, at_ms DESC);

-- +goose Down
DROP TABLE evaluations;
