-- +goose Up
-- Of a text's reference only the marking is kept beside it: the rest is in the
-- row, or follows from what is sealed.
UPDATE payloads SET text = json_extract(text, '$.marking');
ALTER TABLE payloads RENAME COLUMN text TO marking;

-- +goose Down
-- Nothing leads back: a commitment is made from what is sealed.
SELECT 1;
