-- +goose Up
CREATE TABLE proposals (
    organisation TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    proposed_by TEXT NOT NULL,
    body BYTEA NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (organisation, kind, name, digest)
);
-- What was spent is summed over the records that settle it.
CREATE INDEX journal_settled ON journal (at_ms) WHERE kind IN ('turn_answered', 'call_ended');

-- +goose Down
DROP INDEX journal_settled;
DROP TABLE proposals;
