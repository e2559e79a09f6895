-- +goose Up
CREATE TABLE memory_sets (
    organisation TEXT NOT NULL,
    id TEXT NOT NULL,
    labels TEXT NOT NULL,
    PRIMARY KEY (organisation, id)
);
CREATE TABLE memory_generations (
    item TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    version BIGINT NOT NULL,
    erased BIGINT NOT NULL DEFAULT 0,
    changed BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_generations_changed ON memory_generations (changed);
CREATE TABLE memory_items (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    space TEXT NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    run TEXT NOT NULL,
    position BIGINT NOT NULL,
    subject_key TEXT NOT NULL,
    ref_key TEXT NOT NULL,
    same_key TEXT NOT NULL,
    integrity BIGINT NOT NULL,
    valid_from BIGINT NOT NULL,
    valid_to BIGINT NOT NULL,
    recorded_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    archived BIGINT NOT NULL,
    version BIGINT NOT NULL,
    sealed BLOB NOT NULL
);
CREATE INDEX memory_items_newest ON memory_items (organisation, recorded_ms, id);
CREATE INDEX memory_items_space ON memory_items (organisation, space, recorded_ms, id);
CREATE INDEX memory_items_subject ON memory_items (organisation, subject_key) WHERE subject_key <> '';
CREATE INDEX memory_items_ref ON memory_items (organisation, ref_key, position) WHERE ref_key <> '';
CREATE INDEX memory_items_same ON memory_items (organisation, same_key);
CREATE INDEX memory_items_expires ON memory_items (expires_ms) WHERE expires_ms > 0;
CREATE TABLE memory_keys (
    item TEXT NOT NULL PRIMARY KEY,
    wrapped BLOB NOT NULL
);
CREATE TABLE memory_segments (
    item TEXT NOT NULL,
    ord BIGINT NOT NULL,
    set_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (item, ord)
);
CREATE TABLE memory_views (
    item TEXT NOT NULL,
    set_id TEXT NOT NULL,
    omit TEXT NOT NULL,
    terms BLOB NOT NULL,
    PRIMARY KEY (item, set_id)
);
CREATE TABLE memory_vectors (
    item TEXT NOT NULL,
    set_id TEXT NOT NULL,
    vector_space TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (item, set_id, vector_space)
);
CREATE TABLE memory_relations (
    from_item TEXT NOT NULL,
    kind TEXT NOT NULL,
    to_item TEXT NOT NULL,
    ord BIGINT NOT NULL,
    PRIMARY KEY (from_item, kind, to_item)
);
CREATE INDEX memory_relations_to ON memory_relations (to_item, kind);
CREATE TABLE memory_terms (
    organisation TEXT NOT NULL,
    space TEXT NOT NULL,
    set_id TEXT NOT NULL,
    term BIGINT NOT NULL,
    views BIGINT NOT NULL,
    PRIMARY KEY (organisation, space, set_id, term)
) WITHOUT ROWID;
CREATE TABLE memory_outbox (
    item TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    version BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    due_ms BIGINT NOT NULL,
    owner TEXT NOT NULL DEFAULT ''
);
CREATE INDEX memory_outbox_due ON memory_outbox (due_ms, item);
CREATE TABLE memory_vector_spaces (
    id TEXT NOT NULL PRIMARY KEY,
    model TEXT NOT NULL,
    dim BIGINT NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE memory_receipts (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    principal TEXT NOT NULL,
    items TEXT NOT NULL,
    verified_ms BIGINT NOT NULL DEFAULT 0,
    body TEXT NOT NULL
);
CREATE INDEX memory_receipts_open ON memory_receipts (id) WHERE verified_ms = 0;
CREATE TABLE memory_audit (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    principal TEXT NOT NULL,
    run TEXT NOT NULL,
    act TEXT NOT NULL,
    items TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE INDEX memory_audit_newest ON memory_audit (organisation, at_ms, id);
CREATE TABLE memory_commands (
    organisation TEXT NOT NULL,
    principal TEXT NOT NULL,
    command TEXT NOT NULL,
    request TEXT NOT NULL,
    item TEXT NOT NULL,
    known BIGINT NOT NULL,
    PRIMARY KEY (organisation, principal, command)
);
CREATE INDEX memory_commands_item ON memory_commands (item);
CREATE TABLE memory_quotas (
    organisation TEXT NOT NULL,
    principal TEXT NOT NULL,
    items BIGINT NOT NULL,
    PRIMARY KEY (organisation, principal)
);

-- +goose Down
DROP TABLE memory_quotas;
DROP TABLE memory_commands;
DROP TABLE memory_audit;
DROP TABLE memory_receipts;
DROP TABLE memory_vector_spaces;
DROP TABLE memory_outbox;
DROP TABLE memory_terms;
DROP TABLE memory_relations;
DROP TABLE memory_vectors;
DROP TABLE memory_views;
DROP TABLE memory_segments;
DROP TABLE memory_keys;
DROP TABLE memory_items;
DROP TABLE memory_generations;
DROP TABLE memory_sets;
