-- +goose Up
ALTER TABLE conversations ADD COLUMN turns TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation_entries ADD COLUMN whom TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation_entries ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation_entries ADD COLUMN about BIGINT NOT NULL DEFAULT 0;
CREATE INDEX conversation_entries_gatherings ON conversation_entries (conversation, number) WHERE kind IN ('joined', 'left', 'turns_set');
CREATE TABLE followed_conversations (
    conversation TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    settled BIGINT NOT NULL DEFAULT 0,
    seen BIGINT NOT NULL DEFAULT 0
);

-- +goose Down
DROP TABLE followed_conversations;
DROP INDEX conversation_entries_gatherings;
ALTER TABLE conversation_entries DROP COLUMN about;
ALTER TABLE conversation_entries DROP COLUMN code;
ALTER TABLE conversation_entries DROP COLUMN whom;
ALTER TABLE conversations DROP COLUMN turns;
