-- +goose Up
CREATE TABLE signed_heads (
    organisation TEXT NOT NULL,
    number BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (organisation, number)
);

-- +goose Down
DROP TABLE signed_heads;
