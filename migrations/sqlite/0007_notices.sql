-- +goose Up
CREATE TABLE notice_steps (
    organisation TEXT NOT NULL,
    item TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    step TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (organisation, item, since_ms, step)
);
CREATE TABLE notices (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    item TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    step TEXT NOT NULL,
    person TEXT NOT NULL,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    until_ms BIGINT NOT NULL,
    channel TEXT NOT NULL,
    route TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    next_ms BIGINT NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    lease_ms BIGINT NOT NULL DEFAULT 0,
    code TEXT NOT NULL DEFAULT '',
    settled_ms BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX notices_waiting ON notices (route, attempts, created_ms) WHERE state = 'WAITING';
CREATE INDEX notices_person ON notices (organisation, person, created_ms);
CREATE INDEX notices_item ON notices (organisation, item);

-- +goose Down
DROP TABLE notices;
DROP TABLE notice_steps;
