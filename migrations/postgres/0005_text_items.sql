-- +goose Up
CREATE TABLE text_items (
    item TEXT NOT NULL,
    text TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (item, run, text)
);
CREATE INDEX text_items_text ON text_items (text);
CREATE TABLE erased_items (
    item TEXT NOT NULL PRIMARY KEY
);

-- +goose Down
DROP TABLE erased_items;
DROP TABLE text_items;
