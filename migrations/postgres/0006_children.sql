-- +goose Up
ALTER TABLE heads ADD COLUMN news BIGINT NOT NULL DEFAULT 0;
ALTER TABLE heads ADD COLUMN heard BIGINT NOT NULL DEFAULT 0;
CREATE INDEX heads_parent ON heads (parent) WHERE parent <> '';

-- +goose Down
DROP INDEX heads_parent;
ALTER TABLE heads DROP COLUMN heard;
ALTER TABLE heads DROP COLUMN news;
