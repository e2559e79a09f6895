-- +goose Up
-- Of a text's reference only the marking is kept beside it: the rest is in the
-- row, or follows from what is sealed.
ALTER TABLE payloads ALTER COLUMN text TYPE TEXT USING text::json ->> 'marking';
ALTER TABLE payloads RENAME COLUMN text TO marking;
-- A head moves several times a round: with room on its page no index moves.
ALTER TABLE heads SET (fillfactor = 60);

-- +goose Down
-- Nothing leads back: a commitment is made from what is sealed.
ALTER TABLE heads RESET (fillfactor);
