-- +goose Up
CREATE TABLE schedules (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    name TEXT NOT NULL,
    made_by TEXT NOT NULL,
    agent TEXT NOT NULL,
    goal TEXT NOT NULL,
    subject TEXT NOT NULL,
    conversation TEXT NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    catch_up TEXT NOT NULL,
    from_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    micro_usd BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    next_ms BIGINT NOT NULL,
    paused TEXT NOT NULL DEFAULT '',
    refusals BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX schedules_name ON schedules (organisation, made_by, name);
CREATE INDEX schedules_subject ON schedules (organisation, subject);
CREATE INDEX schedules_due ON schedules (next_ms) WHERE paused = '' AND next_ms > 0;
-- A firing is open until it is known to have come to its end; who settles it
-- holds it meanwhile.
CREATE TABLE schedule_firings (
    schedule TEXT NOT NULL,
    planned_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    count BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT NOT NULL DEFAULT '',
    run TEXT NOT NULL DEFAULT '',
    open BIGINT NOT NULL,
    held_ms BIGINT NOT NULL DEFAULT 0,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (schedule, planned_ms)
);
CREATE INDEX schedule_firings_planned ON schedule_firings (held_ms) WHERE outcome = 'PLANNED';
CREATE INDEX schedule_firings_open ON schedule_firings (schedule, planned_ms) WHERE open = 1;

-- +goose Down
DROP TABLE schedule_firings;
DROP TABLE schedules;
