-- +goose Up
CREATE TABLE heads (
    run TEXT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    digest TEXT NOT NULL,
    epoch BIGINT NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    lease_until BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL,
    due_ms BIGINT NOT NULL,
    organisation TEXT NOT NULL,
    root TEXT NOT NULL,
    parent TEXT NOT NULL,
    conversation TEXT NOT NULL,
    subject TEXT NOT NULL,
    agent TEXT NOT NULL,
    department TEXT NOT NULL,
    labels TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX heads_due ON heads (due_ms) WHERE due_ms > 0;
CREATE INDEX heads_newest ON heads (organisation, run);
CREATE INDEX heads_root ON heads (root);
CREATE INDEX heads_conversation ON heads (conversation) WHERE conversation <> '';

CREATE TABLE journal (
    run TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    version BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    body BYTEA NOT NULL,
    prev TEXT NOT NULL,
    digest TEXT NOT NULL,
    writer TEXT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (run, seq),
    UNIQUE (writer, n)
);
CREATE TABLE writers (
    id TEXT NOT NULL PRIMARY KEY,
    opened_ms BIGINT NOT NULL
);
CREATE TABLE cursors (
    name TEXT NOT NULL,
    writer TEXT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (name, writer)
);

CREATE TABLE payloads (
    id TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    sealed BYTEA NOT NULL
);
CREATE INDEX payloads_subject ON payloads (subject);
CREATE TABLE subject_keys (
    subject TEXT NOT NULL PRIMARY KEY,
    wrapped BYTEA NOT NULL
);

CREATE TABLE receipts (
    organisation TEXT NOT NULL,
    caller TEXT NOT NULL,
    command TEXT NOT NULL,
    request TEXT NOT NULL,
    run TEXT NOT NULL,
    answer BYTEA NOT NULL,
    PRIMARY KEY (organisation, caller, command)
);
CREATE TABLE gates (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE budgets (
    node TEXT NOT NULL PRIMARY KEY,
    limit_money BIGINT NOT NULL,
    limit_tokens BIGINT NOT NULL,
    reserved_money BIGINT NOT NULL DEFAULT 0,
    reserved_tokens BIGINT NOT NULL DEFAULT 0,
    settled_money BIGINT NOT NULL DEFAULT 0,
    settled_tokens BIGINT NOT NULL DEFAULT 0,
    unknown_money BIGINT NOT NULL DEFAULT 0,
    unknown_tokens BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE inbox (
    organisation TEXT NOT NULL,
    id TEXT NOT NULL,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    approvers TEXT NOT NULL,
    not_after_ms BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (organisation, id)
);

CREATE TABLE conversations (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    title TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    participants TEXT NOT NULL,
    next BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX conversations_newest ON conversations (organisation, id);
CREATE TABLE conversation_entries (
    conversation TEXT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    run TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (conversation, number)
);

CREATE TABLE configurations (
    organisation TEXT NOT NULL,
    digest TEXT NOT NULL,
    body BYTEA NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (organisation, digest)
);

-- +goose Down
DROP TABLE configurations;
DROP TABLE conversation_entries;
DROP TABLE conversations;
DROP TABLE inbox;
DROP TABLE budgets;
DROP TABLE gates;
DROP TABLE receipts;
DROP TABLE subject_keys;
DROP TABLE payloads;
DROP TABLE cursors;
DROP TABLE writers;
DROP TABLE journal;
DROP TABLE heads;
